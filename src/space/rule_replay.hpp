// rule_replay.hpp: plays a script of requests, releases, cancellations and the like on a space, and
// compares the space with the rule after every step. For tests and fuzzers.
//
// One thread makes all calls, and waiters only record their outcome, so each step's outcome is
// exact. In a space that notifies waiters from other threads, `await_notices` returns when all have
// been notified.
//
// Some steps take a crowd: many holds below one path, released at the end of the step. In a local
// space a crowd of the default size fills a shard, so that the shard forgets other paths and reuses
// their memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "space/latest_tokens.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure {

class RuleReplay {
 public:
  static constexpr std::size_t large_crowd = 128;

  explicit RuleReplay(
      detail::Backend* space, std::function<void()> await_notices = [] {},
      std::size_t crowd_size = large_crowd)
      : space_(space), await_notices_(std::move(await_notices)), crowd_size_(crowd_size) {}
  RuleReplay(const RuleReplay&) = delete;
  RuleReplay& operator=(const RuleReplay&) = delete;
  ~RuleReplay() {
    for (Actor& actor : actors_) {
      if (actor.role == Role::waiting) detail::cancel(space_, actor);
      if (actor.role == Role::holding || actor.role == Role::evicted) space_->release(actor.grant);
    }
    space_->abandon();
  }

  // Each step takes a few bytes of the script. Throws std::logic_error when the space and the rule
  // disagree.
  void play(std::span<const std::uint8_t> script) {
    Script in{script};
    while (!in.empty()) {
      step(in);
      compare();
    }
    finish();
  }

  [[nodiscard]] std::size_t grants() const { return grants_; }
  [[nodiscard]] std::size_t waits() const { return waits_; }
  [[nodiscard]] std::size_t crowds() const { return crowds_; }

 private:
  enum class Role : std::uint8_t { idle, waiting, holding, evicted };
  struct Actor : detail::Waiter {
    Actor() : Waiter(&told) {}
    Role role = Role::idle;
    std::optional<detail::WaitOutcome> news;
    Ticket ticket;
    static void told(Waiter& waiter, detail::WaitOutcome outcome) noexcept {
      static_cast<Actor&>(waiter).news = outcome;
    }
  };
  class Script {
   public:
    explicit Script(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
    [[nodiscard]] bool empty() const { return rest_.empty(); }
    std::size_t below(std::size_t limit) {
      if (rest_.empty()) return 0;
      const std::size_t value = rest_.front() % limit;
      rest_ = rest_.subspan(1);
      return value;
    }

   private:
    std::span<const std::uint8_t> rest_;
  };

  static Claim claim(Script& in) {
    // Depths 0 to 5, siblings in different shards, one long key.
    static const std::array paths = {Path::of("a"),
                                     Path::of("a", 1),
                                     Path::of("a", 2),
                                     Path::of("a", 1, "x"),
                                     Path::of("a", 1, "x", "y"),
                                     Path::of("b"),
                                     Path::of("b", 1),
                                     Path::of("a", 3),
                                     Path{},
                                     Path::of("a", 1, "x", "y", std::string(60, 'z'))};
    static const std::array modes = {
        Mode::exclusive(),        Mode::shared(),           Mode::group("g"),
        Mode::group("h"),         Mode::group("k"),         Mode::permits(3),
        Mode::permits(3).take(2), Mode::permits(3).take(3), Mode::group("shared", 2),
        Mode::group("g", 1),      Mode::permits(2).take(2)};
    // The last modes of the table disagree with earlier ones on a limit; they come rarely.
    constexpr std::size_t agreeing = 8;
    const std::size_t mode = in.below(3 * agreeing + 3);
    const Path& path = paths[in.below(paths.size())];
    return {path, modes[mode < 3 * agreeing ? mode % agreeing : mode - 2 * agreeing]};
  }

  [[noreturn]] static void disagree(const std::string& what) { throw std::logic_error(what); }
  static void expect(bool holds, const char* what) {
    if (!holds) disagree(what);
  }

  Actor& any(Script& in) { return actors_[in.below(actors_.size())]; }

  void step(Script& in) {
    Actor& actor = any(in);
    switch (in.below(9)) {
      case 0:
      case 1:
      case 2:
        if (actor.role == Role::idle) request(actor, in, false);
        break;
      case 3:
        if (actor.role == Role::idle) request(actor, in, true);
        break;
      case 4:
      case 5: release(actor); break;
      case 6:
        if (in.below(3) == 0) {
          evict(actor);
        } else if (actor.role == Role::waiting) {
          expect(detail::cancel(space_, actor), "cancelling a waiting request failed");
          forget(actor);
        }
        break;
      case 7: downgrade(actor, in); break;
      default:
        if (in.below(2) == 0) {
          for (std::size_t n = 1 + in.below(3); n > 0; --n) crowd(in);
        }
    }
  }

  // Parents of crowds: of every name one path in each of a few shards (the route of a path chooses
  // it), so that one crowd follows another in the same shard.
  static Path crowded(std::size_t name, std::size_t shard) {
    constexpr std::size_t routes = 32;
    static const std::array names = {"a", "b", "c"};
    int number = 10;
    while (Path::of(names.at(name), number).route() % routes != shard) ++number;
    return Path::of(names.at(name), number);
  }

  void crowd(Script& in) {
    const Path parent = crowded(in.below(3), in.below(4));
    const std::array whole = {Claim{parent}};
    if (std::ranges::any_of(
            live_, [&whole](const Ticket& other) { return conflict(other.claims, whole); })) {
      return;
    }
    ++crowds_;
    std::vector<detail::Grant> grants;
    for (std::size_t i = 0; i < crowd_size_; ++i) {
      const std::array claims = {Claim{parent / Path::of(i)}};
      detail::Grant grant = space_->request_free(claims[0], nobody_);
      expect(grant.ticket != nullptr || space_->try_request({claims, nobody_}, grant),
             "a free path was refused");
      // All conflict with the same others, so checking the first and the last is enough.
      if (i == 0 || i + 1 == crowd_size_) note_token(claims, grant.token);
      grants.push_back(grant);
    }
    const std::size_t evicted = in.below(crowd_size_);
    expect(space_->evict(grants[evicted].token, true), "a hold could not be evicted");
    for (std::size_t i = 0; i < crowd_size_; ++i) {
      expect(space_->release(grants[i]) == (i != evicted),
             "release told wrongly whether it was held");
    }
  }

  // Compares with the tokens of all conflicting tickets there ever were.
  void note_token(std::span<const Claim> claims, Token token) {
    const auto* const earlier = past_.conflicting(claims);
    expect(earlier == nullptr || earlier->token < token,
           "a later ticket has a smaller number than one it conflicts with");
    expect(numbers_.insert(token.value).second, "a number was given twice");
    past_.add(claims, {.token = token, .of = {}});
  }

  void request(Actor& actor, Script& in, bool only_try) {
    std::vector<Claim> claims;
    for (std::size_t n = in.below(4) == 3 ? 2 : 1; n > 0; --n) claims.push_back(claim(in));
    const bool faulty = find_fault(claims).has_value();
    const bool clash = find_limit_clash(claims, live_).has_value();
    const Ticket newest{
        .number = Token{std::numeric_limits<std::uint64_t>::max()}, .claims = claims, .owner = {}};
    const bool free = tenure::granted(newest, live_);
    actor.news.reset();
    actor.grant = {};
    actor.decided = false;
    bool got = false;
    try {
      if (claims.size() == 1) actor.grant = space_->request_free(claims.front(), nobody_);
      got = actor.grant.ticket != nullptr;
      if (!got && only_try) got = space_->try_request({claims, nobody_}, actor.grant);
      if (!got && !only_try) got = space_->request({claims, nobody_}, actor);
    } catch (const BadRequest&) {
      expect(faulty, "a sound request was refused");
      return;
    } catch (const LimitMismatch&) {
      expect(clash, "limits agree, but were said not to");
      return;
    }
    expect(!faulty && !clash, "a request that should be refused was not");
    expect(got == free, got ? "granted although blocked" : "not granted although free");
    if (!got && only_try) return;
    actor.ticket = {.number = actor.grant.token, .claims = claims, .owner = {}};
    note_token(claims, actor.ticket.number);
    live_.push_back(actor.ticket);
    actor.role = got ? Role::holding : Role::waiting;
    ++(got ? grants_ : waits_);
  }

  void release(Actor& actor) {
    if (actor.role != Role::holding && actor.role != Role::evicted) return;
    expect(space_->renew(actor.grant, {}) == (actor.role == Role::holding),
           "renew told wrongly whether it was held");
    const bool held = space_->release(actor.grant);
    expect(held == (actor.role == Role::holding), "release told wrongly whether it was held");
    forget(actor);
  }

  void evict(Actor& actor) {
    const bool live = actor.role == Role::waiting || actor.role == Role::holding;
    expect(space_->evict(actor.ticket.number, true) == live,
           "evict told wrongly whether it was there");
    await_notices_();
    if (actor.role == Role::waiting) {
      expect(actor.news == detail::WaitOutcome::evicted, "an evicted waiter was not told");
      forget(actor);
    } else if (actor.role == Role::holding) {
      const std::stop_token lost = space_->lost(actor.grant);
      while (!lost.stop_requested()) std::this_thread::yield();  // Told by a thread of its own.
      std::erase(live_, actor.ticket);
      actor.role = Role::evicted;
    }
  }

  void downgrade(Actor& actor, Script& in) {
    if (actor.role != Role::holding) return;
    std::vector<Claim> wanted;
    const std::vector<Claim>& held = actor.ticket.claims;
    for (std::size_t n = 1 + in.below(2); n > 0; --n) {
      wanted.push_back(claim(in));
      // Any path is seldom one that is held.
      if (in.below(2) == 0) wanted.back().path = held[in.below(held.size())].path;
    }
    const auto others = [&] {
      std::vector<Ticket> rest = live_;
      std::erase(rest, actor.ticket);
      return rest;
    }();
    const bool allowed = !find_fault(wanted) && !find_downgrade_fault(actor.ticket.claims, wanted);
    const bool clash = allowed && find_limit_clash(wanted, others).has_value();
    try {
      space_->downgrade(actor.grant, wanted);
    } catch (const BadRequest&) {
      expect(!allowed, "a downgrade that the rule allows was refused");
      return;
    } catch (const LimitMismatch&) {
      expect(clash, "limits agree, but were said not to");
      return;
    }
    expect(allowed && !clash, "a downgrade that should be refused was not");
    expect(actor.grant.token == actor.ticket.number, "a downgrade changed the number");
    std::erase(live_, actor.ticket);
    actor.ticket.claims = wanted;
    live_.push_back(actor.ticket);
  }

  void forget(Actor& actor) {
    std::erase(live_, actor.ticket);
    actor.ticket = {};
    actor.role = Role::idle;
  }

  // Compares holders, waiters and inspect() with the rule.
  void compare() {
    await_notices_();
    for (Actor& actor : actors_) {
      if (actor.role == Role::waiting && actor.news == detail::WaitOutcome::granted) {
        actor.role = Role::holding;
        ++grants_;
      }
      if (actor.role != Role::waiting && actor.role != Role::holding) continue;
      const bool should = tenure::granted(actor.ticket, live_);
      expect(should == (actor.role == Role::holding),
             should ? "a ticket waits although the rule grants it"
                    : "a ticket holds although the rule does not grant it");
    }
    if (++comparisons_ % 8 != 0) return;
    std::vector<Ticket> seen;
    for (const TicketInfo& info : space_->inspect({})) seen.push_back(sorted(info.ticket));
    std::vector<Ticket> known;
    for (const Ticket& ticket : live_) known.push_back(sorted(ticket));
    std::ranges::sort(known, {}, &Ticket::number);
    expect(seen == known, "inspection shows other tickets than there are");
  }

  static Ticket sorted(Ticket ticket) {
    std::ranges::sort(ticket.claims, {}, &Claim::path);
    return ticket;
  }

  void finish() {
    for (std::size_t round = 0; round < actors_.size() && !live_.empty(); ++round) {
      for (Actor& actor : actors_) {
        release(actor);
        compare();
      }
    }
    for (Actor& actor : actors_) release(actor);
    expect(live_.empty(), "somebody still waits when nobody holds");
    expect(space_->inspect({}).empty(), "something was left behind");
  }

  detail::Backend* space_;
  std::function<void()> await_notices_;
  detail::OwnerRef nobody_;
  std::deque<Actor> actors_ = std::deque<Actor>(8);
  std::size_t crowd_size_;
  std::vector<Ticket> live_;
  LatestTokens<std::monostate> past_;
  std::unordered_set<std::uint64_t> numbers_;
  std::size_t crowds_ = 0;
  std::size_t grants_ = 0;
  std::size_t waits_ = 0;
  std::size_t comparisons_ = 0;
};

}  // namespace tenure

// rule_replay.hpp: plays a script of requests, releases, cancellations, downgrades, changes of
// limits and holds that are asked for again on a space, and compares the space with the rule after
// every step. For tests and fuzzers.
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
#include "tenure/hold.hpp"
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
      if (!actor.handles.empty()) continue;
      if (actor.role == Role::holding || actor.role == Role::evicted) space_->release(actor.grant);
    }
    actors_.clear();  // With their handles.
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
  [[nodiscard]] std::size_t limits() const { return limits_; }
  [[nodiscard]] std::size_t agains() const { return agains_; }
  [[nodiscard]] std::size_t upgrades() const { return upgrades_; }

 private:
  enum class Role : std::uint8_t { idle, waiting, holding, evicted };
  struct Actor : detail::Waiter {
    Actor() : Waiter(&told) {}
    Role role = Role::idle;
    std::optional<detail::WaitOutcome> news;
    Ticket ticket;
    // After the first again(): all handles of the ticket, instead of `grant`.
    std::vector<Hold> handles;
    Actor* upgrades = nullptr;  // Whose hold its ticket is to replace,
    bool busy = false;          // and of that one: it waits for its upgrade.
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

  // Mostly with the limit that is in use.
  Claim agreed_claim(Script& in) const {
    Claim wanted = claim(in);
    const auto clash = find_limit_clash({&wanted, 1}, live_);
    if (!clash || wanted.mode.limit() == 0 || clash->live.mode.limit() < wanted.mode.weight()) {
      return wanted;
    }
    if (in.below(8) != 0) wanted.mode = wanted.mode.with_limit(clash->live.mode.limit());
    return wanted;
  }

  [[noreturn]] static void disagree(const std::string& what) { throw std::logic_error(what); }
  static void expect(bool holds, const char* what) {
    if (!holds) disagree(what);
  }

  Actor& any(Script& in) { return actors_[in.below(actors_.size())]; }

  void step(Script& in) {
    Actor& actor = any(in);
    if (actor.busy) return;
    switch (in.below(12)) {
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
      case 8: set_limit(in); break;
      case 9: again(actor, in); break;
      case 10: upgrade(actor, in); break;
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
    for (std::size_t n = in.below(4) == 3 ? 2 : 1; n > 0; --n) claims.push_back(agreed_claim(in));
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

  // The new ticket is another actor's until it replaces the held one.
  void upgrade(Actor& actor, Script& in) {
    Actor& by = any(in);
    if (actor.role != Role::holding || !actor.handles.empty() || by.role != Role::idle) return;
    std::vector<Claim> wanted;
    for (const Claim& held : actor.ticket.claims) {
      wanted.push_back(in.below(4) == 0 ? held : Claim{held.path});
    }
    if (in.below(8) == 0) wanted.back() = agreed_claim(in);
    const bool allowed = !find_upgrade_fault(actor.ticket.claims, wanted);
    const bool clash = allowed && find_limit_clash(wanted, live_).has_value();
    const Ticket newest{.number = Token{std::numeric_limits<std::uint64_t>::max()},
                        .claims = wanted,
                        .owner = {},
                        .replaces = actor.ticket.number};
    const bool free = tenure::granted(newest, live_);
    std::vector<Ticket> with = live_;
    with.push_back(newest);
    const bool stuck = !find_cycle(with, newest.number).empty();
    const bool only_try = in.below(3) == 0;
    by.news.reset();
    by.grant = {};
    by.decided = false;
    bool got = false;
    const detail::Ask ask{.claims = wanted, .owner = nobody_, .held = &actor.grant};
    try {
      got = only_try ? space_->try_request(ask, by.grant) : space_->request(ask, by);
    } catch (const BadRequest&) {
      expect(!allowed, "an upgrade that the rule allows was refused");
      return;
    } catch (const LimitMismatch&) {
      expect(clash, "limits agree, but were said not to");
      return;
    } catch (const Deadlock&) {
      expect(allowed && !clash && stuck && !only_try, "an upgrade is no deadlock");
      return;
    }
    expect(allowed && !clash, "an upgrade that should be refused was not");
    expect(got == free, got ? "upgraded although blocked" : "not upgraded although free");
    if (!got && only_try) return;
    expect(got || !stuck, "an upgrade that is a deadlock waits");
    by.ticket = newest;
    by.ticket.number = by.grant.token;
    note_token(wanted, by.ticket.number);
    live_.push_back(by.ticket);
    by.role = got ? Role::holding : Role::waiting;
    ++(got ? grants_ : waits_);
    by.upgrades = &actor;
    actor.busy = true;
    ++upgrades_;
    if (got) end_upgrade(by);
  }

  void end_upgrade(Actor& by) {
    if (by.upgrades == nullptr) return;
    Actor& held = *std::exchange(by.upgrades, nullptr);
    held.busy = false;
    expect(space_->release(held.grant), "a hold was lost while it was upgraded");
    forget(held);
  }

  // Reentrancy: the ticket stays until its last handle has gone.
  void again(Actor& actor, Script& in) {
    if (actor.role != Role::holding) return;
    std::vector<Claim> wanted;
    const std::vector<Claim>& held = actor.ticket.claims;
    wanted.push_back(in.below(2) == 0 ? held[in.below(held.size())] : agreed_claim(in));
    if (in.below(2) == 0) wanted.back().path = held[in.below(held.size())].path;
    const bool covered = !find_again_fault(held, wanted);
    if (actor.handles.empty()) {
      actor.handles.push_back(detail::HoldAccess::make(space_, actor.grant));
    }
    try {
      const Hold& any = actor.handles[in.below(actor.handles.size())];
      actor.handles.push_back(any.again(wanted));
    } catch (const BadRequest&) {
      expect(!covered, "a claim that is held was not held again");
      return;
    }
    expect(covered, "a claim was held again that is not held");
    expect(actor.handles.back().token() == actor.ticket.number, "a handle has another token");
    ++agains_;
  }

  // True: the ticket stays.
  bool release_handle(Actor& actor) {
    if (actor.handles.empty()) return false;
    const bool held = actor.handles.back().release();
    actor.handles.pop_back();
    if (!actor.handles.empty()) return true;
    expect(held == (actor.role == Role::holding), "release told wrongly whether it was held");
    forget(actor);
    return true;
  }

  void release(Actor& actor) {
    if (actor.busy) return;
    if (actor.role != Role::holding && actor.role != Role::evicted) return;
    if (release_handle(actor)) return;
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
      const std::stop_token lost =
          actor.handles.empty() ? space_->lost(actor.grant) : actor.handles.front().lost();
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
      wanted.push_back(agreed_claim(in));
      // Any path is seldom one that is held.
      if (in.below(2) == 0) wanted.back().path = held[in.below(held.size())].path;
      if (in.below(4) == 0) wanted.back() = held[in.below(held.size())];
    }
    const auto others = [&] {
      std::vector<Ticket> rest = live_;
      std::erase(rest, actor.ticket);
      return rest;
    }();
    const bool allowed = !find_fault(wanted) &&
                         !find_downgrade_fault(actor.ticket.claims, wanted) &&
                         actor.handles.size() < 2;
    const bool clash = allowed && find_limit_clash(wanted, others).has_value();
    try {
      if (actor.handles.empty()) {
        space_->downgrade(actor.grant, wanted);
      } else {
        actor.handles.front().downgrade(wanted);
      }
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
    actor.ticket.kept = kept_after_downgrade(actor.ticket, wanted);
    actor.ticket.claims = wanted;
    live_.push_back(actor.ticket);
  }

  // Of a group that somebody is in, if there is one.
  void set_limit(Script& in) {
    std::vector<Claim> limited;
    for (const Ticket& ticket : live_) {
      for (const Claim& one : ticket.claims) {
        if (one.mode.limit() != 0) limited.push_back(one);
      }
    }
    Claim limit = limited.empty() ? Claim{Path::of("a"), Mode::permits(2)}
                                  : limited[in.below(limited.size())];
    const auto most = static_cast<std::uint32_t>(1 + in.below(4));
    limit.mode = Mode::group(limit.mode.name(), most);
    const auto expected = change_limit(limit, live_);
    try {
      const std::size_t members = space_->set_limit(limit);
      expect(expected.has_value(), "a limit was changed that the rule does not let change");
      expect(members == expected->members, "set_limit told another number of tickets");
    } catch (const LimitMismatch&) {
      expect(!expected.has_value(), "a change of a limit was refused");
      return;
    }
    for (const Ticket& changed : expected->changed) {
      *std::ranges::find(live_, changed.number, &Ticket::number) = changed;
      for (Actor& actor : actors_) {
        if (actor.ticket.number == changed.number) actor.ticket = changed;
      }
    }
    if (!expected->changed.empty()) ++limits_;
  }

  void forget(Actor& actor) {
    if (actor.upgrades != nullptr) std::exchange(actor.upgrades, nullptr)->busy = false;
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
        end_upgrade(actor);
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
    const Ticket was = ticket;
    std::ranges::sort(ticket.claims, {}, &Claim::path);
    ticket.kept = 0;
    for (std::size_t i = 0; i < was.claims.size(); ++i) {
      const auto now = std::ranges::find(ticket.claims, was.claims[i]) - ticket.claims.begin();
      if (was.keeps(i)) ticket.kept |= std::uint64_t{1} << static_cast<unsigned>(now);
    }
    return ticket;
  }

  void finish() {
    const auto leave = [this](Actor& actor) {
      while (actor.handles.size() > 1) release(actor);
      release(actor);
    };
    for (std::size_t round = 0; round < actors_.size() && !live_.empty(); ++round) {
      for (Actor& actor : actors_) {
        leave(actor);
        compare();
      }
    }
    for (Actor& actor : actors_) leave(actor);
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
  std::size_t limits_ = 0;  // Changed ones.
  std::size_t agains_ = 0;
  std::size_t upgrades_ = 0;
  std::size_t grants_ = 0;
  std::size_t waits_ = 0;
  std::size_t comparisons_ = 0;
};

}  // namespace tenure

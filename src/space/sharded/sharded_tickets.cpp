// All tickets of a sharded space: listing, following, evicting, finding one by its number.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

#include "space/sharded/sharded_space.hpp"
#include "tenure/error.hpp"

namespace tenure::sharded {
namespace {

using namespace std::chrono_literals;
// How soon an observer asks again for a shard that did not answer.
constexpr auto look_again_after = 1s;

// Stands for the tickets that a shard did not tell.
TicketInfo unknown_tickets(std::string fault) {
  TicketInfo info;
  info.fault = std::move(fault);
  return info;
}

std::vector<TicketInfo> joined(std::vector<ShardedSpace::Said> said) {
  std::vector<TicketInfo> all;
  for (ShardedSpace::Said& one : said) {
    std::ranges::move(one.tickets, std::back_inserter(all));
    if (!one.fault.empty()) all.push_back(unknown_tickets(std::move(one.fault)));
  }
  return all;
}

// Watches every shard that answers; those that do not are asked again from time to time.
class ShardedTicketWatch final : public detail::TicketWatch {
 public:
  ShardedTicketWatch(std::shared_ptr<ShardedSpace> space, Path path, std::function<void()> changed)
      : space_(std::move(space)),
        limits_(space_->time_limits()),
        path_(std::move(path)),
        changed_(std::make_shared<std::function<void()>>(std::move(changed))) {}
  ShardedTicketWatch(const ShardedTicketWatch&) = delete;
  ShardedTicketWatch& operator=(const ShardedTicketWatch&) = delete;
  ~ShardedTicketWatch() override { stop(); }

  [[nodiscard]] std::vector<TicketInfo> look() override {
    std::vector<ShardedSpace::Said> said = space_->ask_shards(path_);
    std::map<std::string, Watching> old;
    old.swap(watching_);
    bool all = true;
    for (ShardedSpace::Said& one : said) {
      try {
        if (one.home == nullptr) throw StoreError(one.fault);
        Watching& now = watching_[one.shard];
        const auto known = old.find(one.shard);
        // A shard that was opened again has another space.
        if (known != old.end() && known->second.space == one.home->space) {
          now = std::move(known->second);
        } else {
          now.space = one.home->space;
          now.watch = now.space->watch(path_, *changed_);
        }
        one.tickets = now.watch->look();
      } catch (const Error& error) {
        if (said.size() == 1) throw;
        watching_.erase(one.shard);
        one.tickets.clear();
        one.fault = error.what();
        all = false;
      }
    }
    if (!all) look_again();
    return joined(std::move(said));
  }

 private:
  struct Watching {
    std::shared_ptr<stored::StoredSpace> space;
    std::unique_ptr<detail::TicketWatch> watch;  // Last: it uses the space.
  };

  void look_again() {
    const std::weak_ptr<std::function<void()>> changed = changed_;
    limits_->call_at(detail::TimeLimits::Clock::now() + look_again_after, [changed] {
      if (const auto call = changed.lock()) (*call)();
    });
  }
  // When it returns, `changed` is not running any more.
  void stop() {
    watching_.clear();
    const std::weak_ptr<std::function<void()>> last = changed_;
    changed_.reset();
    while (!last.expired()) std::this_thread::yield();
  }

  const std::shared_ptr<ShardedSpace> space_;
  const std::shared_ptr<detail::TimeLimits> limits_;
  const Path path_;
  std::shared_ptr<std::function<void()>> changed_;
  std::map<std::string, Watching> watching_;
};

}  // namespace

std::vector<ShardedSpace::Said> ShardedSpace::ask_shards(const Path& path) {
  std::vector<Said> said;
  if (!path.is_root()) {
    Said& one = said.emplace_back();
    one.home = home(path);
    one.shard = one.home->map->self;
    one.tickets = one.home->space->inspect(path);
    return said;
  }
  check_process();
  for (const std::string& name : map()->names) said.emplace_back().shard = name;
  std::vector<std::jthread> threads;
  threads.reserve(said.size());
  for (Said& one : said) {
    threads.emplace_back([this, &one] {
      try {
        Shard& shard = find(one.shard);
        one.home = shard.prepare(true);
        adopt(shard, one.home->map->map);
        one.tickets = one.home->space->inspect({});
      } catch (const std::exception& error) {
        one.home = nullptr;
        one.fault = error.what();
      }
    });
  }
  return threads.clear(), said;
}

std::vector<TicketInfo> ShardedSpace::inspect(const Path& path) { return joined(ask_shards(path)); }

std::unique_ptr<detail::TicketWatch> ShardedSpace::watch(const Path& path,
                                                         std::function<void()> changed) {
  check_process();
  return std::make_unique<ShardedTicketWatch>(shared_from_this(), path, std::move(changed));
}

// Null: no shard has it. Throws if several have, or if it may be in one that does not answer.
std::optional<ShardedSpace::Said> ShardedSpace::find_ticket(Token token) {
  std::optional<Said> found;
  std::string fault;
  for (Said& one : ask_shards({})) {
    if (!one.fault.empty()) fault = one.fault;
    const auto has = [token](const TicketInfo& info) { return info.ticket.number == token; };
    if (std::ranges::none_of(one.tickets, has)) continue;
    if (found.has_value()) {
      throw BadRequest("the shards '" + found->shard + "' and '" + one.shard +
                       "' both have a ticket with the number " + std::to_string(token.value) +
                       ": say which by its path (evict_below(), find() with a path), or open the "
                       "store of that shard alone");
    }
    found = std::move(one);
  }
  if (!found.has_value() && !fault.empty()) {
    throw StoreError("ticket " + std::to_string(token.value) +
                     " is in no shard that answers; it may be in another one: " + fault);
  }
  return found;
}

bool ShardedSpace::evict(Token token, bool at_once) {
  if (token != Token{}) {
    const std::optional<Said> found = find_ticket(token);
    return found.has_value() && found->home->space->evict(token, at_once);
  }
  bool evicted = false;  // Entries that are no ticket, wherever they are.
  for (const Said& one : ask_shards({})) {
    if (one.home != nullptr) evicted = one.home->space->evict(token, at_once) || evicted;
  }
  return evicted;
}

bool ShardedSpace::ask_to_leave(Token token) {
  const std::optional<Said> found = find_ticket(token);
  return found.has_value() && found->home->space->ask_to_leave(token);
}

// Of `/`: one step per shard. If one does not answer, the others are done.
std::size_t ShardedSpace::evict_below(const Path& path, bool at_once) {
  if (!path.is_root()) return home(path)->space->evict_below(path, at_once);
  std::size_t count = 0;
  std::string fault;
  for (const Said& one : ask_shards({})) {
    if (one.home != nullptr) count += one.home->space->evict_below(path, at_once);
    if (!one.fault.empty()) fault = one.fault;
  }
  if (fault.empty()) return count;
  throw StoreError(std::to_string(count) +
                   " tickets were evicted, but not all shards answer: " + fault);
}

std::size_t ShardedSpace::set_limit(const Claim& limit) {
  return home(limit.path)->space->set_limit(limit);
}

std::optional<bool> ShardedSpace::attach(Token token, const Path& path, detail::Waiter& waiter) {
  if (!path.is_root()) return home(path)->space->attach(token, path, waiter);
  const std::optional<Said> found = find_ticket(token);
  if (!found.has_value()) return std::nullopt;
  return found->home->space->attach(token, path, waiter);
}

}  // namespace tenure::sharded

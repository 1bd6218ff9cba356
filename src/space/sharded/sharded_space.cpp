// Requests: from claims to a shard. What concerns all tickets is in sharded_tickets.cpp.
#include "space/sharded/sharded_space.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <thread>
#include <typeinfo>
#include <utility>

#include "base/thrown_by.hpp"
#include "space/stored/endings.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"
#include "tenure/shards.hpp"

namespace tenure::sharded {
namespace {

// How often a request follows changes of the map. More than a few in a row are no accident.
constexpr int max_reroutes = 16;

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

// The first claim that a change of the map which is under way gives another home; null: none.
const Claim* moving(const ShardMap& map, std::span<const Claim> claims) {
  const auto found = std::ranges::find_if(
      claims, [&map](const Claim& claim) { return map.moves(root_of(claim.path)); });
  return found != claims.end() ? &*found : nullptr;
}

}  // namespace

struct ShardedSpace::Asking {
  std::vector<Claim> claims;
  detail::OwnerRef owner;
  detail::Grant* held;  // The caller keeps it until the wait has ended.
  detail::Waiter* waiter;
  bool only_try;
};

// ---- Opening ----

std::shared_ptr<detail::Backend> ShardedSpace::open(std::vector<ShardSource> sources,
                                                    const SessionOptions& options) {
  std::shared_ptr<ShardedSpace> space{new ShardedSpace(std::move(sources), options),
                                      [](ShardedSpace* gone) { delete gone; }};
  space->read_first_map();
  ShardedSpace* const raw = space.get();
  return {raw, [space = std::move(space)](detail::Backend* backend) mutable {
            // In a forked child nothing may be destroyed: it would wait for threads of the parent.
            if (base::forked_since(space->fork_generation_)) {
              static_cast<void>(new std::shared_ptr<ShardedSpace>(std::move(space)));
              return;
            }
            backend->abandon();
            space.reset();
          }};
}

ShardedSpace::ShardedSpace(std::vector<ShardSource> sources, SessionOptions options)
    : options_(std::move(options)) {
  for (ShardSource& source : sources) {
    std::string name = source.name;
    shards_.emplace(std::move(name),
                    std::make_unique<Shard>(std::move(source), [this](const auto& store) {
                      return make_space(store);
                    }));
  }
}

ShardedSpace::~ShardedSpace() = default;

// Begins anywhere, so that not all processes ask, or wait for, the same shard.
void ShardedSpace::read_first_map() {
  std::vector<Shard*> order;
  order.reserve(shards_.size());
  for (const auto& [name, shard] : shards_) order.push_back(shard.get());
  std::ranges::rotate(
      order, order.begin() + static_cast<std::ptrdiff_t>(std::random_device{}() % order.size()));
  std::string fault;
  for (Shard* const shard : order) {
    try {
      const StoredMap stored = shard->look();
      if (stored.map.version == 0) continue;
      const base::Mutex::Scoped lock{mutex_};
      map_ = std::make_shared<const ShardMap>(stored.map);
      return;
    } catch (const Error& error) {
      fault = error.what();
    }
  }
  if (!fault.empty()) {
    throw StoreError("no shard has answered with the map of this sharded space: " + fault);
  }
  throw Error(
      "this sharded space has no map yet: run 'tenure shards set NAME...' once, with the names of "
      "its shards");
}

std::shared_ptr<stored::StoredSpace> ShardedSpace::make_space(const std::shared_ptr<Store>& store) {
  std::shared_ptr<stored::StoredSpace> space{
      new stored::StoredSpace(store, options_, shared_from_this()),
      [](stored::StoredSpace* gone) { gone->abandon(); }};
  const std::stop_token session = space->session_lost();
  // Callbacks of lost_ are the program's, and this thread may have locked something.
  auto on_lost = std::make_unique<std::stop_callback<std::function<void()>>>(session, [this] {
    const auto stop = [this] { lost_.request_stop(); };
    if (base::thrown_by([&] { runner_->run(stop); }) != nullptr) stop();
  });
  const base::Mutex::Scoped lock{mutex_};
  on_lost_.push_back(std::move(on_lost));
  return space;
}

void ShardedSpace::check_process() const {
  if (!base::forked_since(fork_generation_)) return;
  throw Error(
      "this space was opened before fork() and belongs to the parent process: open it after "
      "fork(), in the process that uses it");
}

// ---- The map ----

std::shared_ptr<const ShardMap> ShardedSpace::map() {
  const base::Mutex::Scoped lock{mutex_};
  return map_;
}

void ShardedSpace::adopt(const Shard& shard, const ShardMap& seen) {
  const base::Mutex::Scoped lock{mutex_};
  if (seen.version != 0 && seen.id != map_->id) {
    throw StoreError("shard '" + shard.name() + "' (" + shard.shown() +
                     ") belongs to another sharded space: correct the list of shards");
  }
  if (seen.version > map_->version) map_ = std::make_shared<const ShardMap>(seen);
}

Shard& ShardedSpace::find(const std::string& name) const {
  const auto found = shards_.find(name);
  if (found != shards_.end()) return *found->second;
  throw StoreError("shard '" + name +
                   "' is in the map of this sharded space, but not in this process's list of "
                   "shards: add its name and URL to that file, and open the space again");
}

Shard& ShardedSpace::route(const ShardMap& map, std::span<const Claim> claims) const {
  if (claims.empty()) throw BadRequest(find_fault(claims).value_or("no claims"));
  const std::string_view root = root_of(claims.front().path);
  const std::string& home = home_of(root, map.names);
  std::string others;
  for (const Claim& claim : claims) {
    const std::string& other = home_of(root_of(claim.path), map.names);
    if (other != home) others += ", '" + claim.path.text() + "' in '" + other + "'";
  }
  if (others.empty()) return find(home);
  throw BadRequest("the claims of one request must lie in one shard, but '" +
                   claims.front().path.text() + "' is in '" + home + "'" + others +
                   ": lock them one after the other, in the same order everywhere, or give paths "
                   "that belong together the same first segment");
}

ShardedSpace::Home ShardedSpace::ready_home(std::span<const Claim> claims) {
  const std::shared_ptr<const ShardMap> now = map();
  const Home home = route(*now, claims).ready();
  if (moving(*now, claims) != nullptr) return nullptr;  // Unless the change is over by now.
  return home != nullptr && home->map->map.version == now->version ? home : nullptr;
}

// `fresh`: reads the map of the shard even if it is known.
ShardedSpace::Home ShardedSpace::prepare_home(const Choose& choose, bool fresh) {
  for (int reroutes = 0; reroutes < max_reroutes; ++reroutes) {
    const std::shared_ptr<const ShardMap> now = map();
    Shard& shard = choose(*now);
    Home home = shard.prepare(fresh || !now->stable());
    if (home->map->map.version < now->version) home = shard.prepare(true);
    const ShardMap& seen = home->map->map;
    adopt(shard, seen);
    if (seen.version == now->version) return home;
    if (seen.version > now->version) continue;
    throw StoreError("shard '" + shard.name() + "' has version " + std::to_string(seen.version) +
                     " of the map, and others have version " + std::to_string(now->version) +
                     ": a change was interrupted, or the shard was restored from a backup; repeat "
                     "'tenure shards set " +
                     list_of(now->names) + "'");
  }
  throw ShardsChanged("the map of this sharded space changes again and again: retry later");
}

ShardedSpace::Home ShardedSpace::prepare_home(std::span<const Claim> claims) {
  Home home =
      prepare_home([&](const ShardMap& now) -> Shard& { return route(now, claims); }, false);
  const ShardMap& now = home->map->map;
  const Claim* const claim = moving(now, claims);
  if (claim == nullptr) return home;
  throw StoreError("'" + claim->path.text() +
                   "' cannot be locked now: a change of the shards to '" + list_of(now.next) +
                   "' moves it. If that change was interrupted, repeat it with 'tenure shards "
                   "set'; otherwise retry soon");
}

template <class Call>
auto ShardedSpace::at_home(std::span<const Claim> claims, const Call& call) {
  check_process();
  for (int reroutes = 0;; ++reroutes) {
    Home home = ready_home(claims);
    if (home == nullptr) home = prepare_home(claims);
    try {
      return call(*home);
    } catch (const ShardsChanged&) {
      if (reroutes == max_reroutes) throw;
    }
  }
}

ShardedSpace::Home ShardedSpace::home(const Path& path) {
  check_process();
  return prepare_home(
      [&](const ShardMap& now) -> Shard& { return find(home_of(root_of(path), now.names)); }, true);
}

// ---- Requests ----

bool ShardedSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  const auto make = [&](const Shard::Parts& home) {
    return home.space->request(ask, waiter, home.gate);
  };
  if (waiter.caller == detail::Caller::waits) return at_home(ask.claims, make);
  check_process();
  try {
    if (const Home home = ready_home(ask.claims)) return make(*home);
  } catch (const ShardsChanged&) {  // NOLINT(bugprone-empty-catch): it is not ready any more.
  }
  ask_in_background(ask, waiter, false);
  return false;
}

bool ShardedSpace::try_request(const detail::Ask& ask, detail::Grant& grant) {
  return at_home(ask.claims, [&](const Shard::Parts& home) {
    return home.space->try_request(ask, grant, home.gate);
  });
}

bool ShardedSpace::try_in_background(const detail::Ask& ask, detail::Waiter& waiter) {
  check_process();
  if (const Home home = ready_home(ask.claims)) {
    return home->space->try_in_background(ask, waiter, home->gate);
  }
  ask_in_background(ask, waiter, true);
  return true;
}

bool ShardedSpace::available(const detail::Ask& ask) {
  return at_home(ask.claims,
                 [&](const Shard::Parts& home) { return home.space->available(ask, home.gate); });
}

void ShardedSpace::withdraw(detail::Waiter& waiter) noexcept {
  if (base::forked_since(fork_generation_)) return;
  {
    const base::Mutex::Scoped lock{asking_mutex_};
    if (asking_.erase(&waiter) != 0) return;
    if (waiter.grant.ticket == nullptr) return;  // hand_over() gave the grant back.
  }
  of(waiter.grant).withdraw(waiter);
}

// ---- Requests of callers that must not wait ----

void ShardedSpace::ask_in_background(const detail::Ask& ask, detail::Waiter& waiter,
                                     bool only_try) {
  const auto asking =
      std::make_shared<Asking>(Asking{.claims = {ask.claims.begin(), ask.claims.end()},
                                      .owner = ask.owner,
                                      .held = ask.held,
                                      .waiter = &waiter,
                                      .only_try = only_try});
  waiter.grant = {};
  {
    const base::Mutex::Scoped lock{asking_mutex_};
    if (closed_) throw Closed("this space is closed: open it again");
    asking_.emplace(&waiter, asking);
  }
  using Threads = stored::RequestThreads;
  const Threads::Lane lane =
      waiter.caller == detail::Caller::goes_on ? Threads::of_this_thread() : Threads::own();
  try {
    route(*map(), ask.claims).threads().run(lane, [this, asking] { ask_for_waiter(asking); });
  } catch (...) {
    bool taken = false;  // By close().
    {
      const base::Mutex::Scoped lock{asking_mutex_};
      taken = asking_.erase(&waiter) == 0;
    }
    if (!taken) throw;
  }
}

void ShardedSpace::ask_for_waiter(const std::shared_ptr<Asking>& asking) noexcept {
  Home home;
  std::exception_ptr error = base::thrown_by([&] { home = prepare_home(asking->claims); });
  hand_over(asking, home, std::move(error));
}

// A thread that cancels the wait has decided its end, and then waits for the mutex: it finds the
// waiter with the space of the shard, or nowhere.
void ShardedSpace::hand_over(const std::shared_ptr<Asking>& asking, const Home& home,
                             std::exception_ptr error) noexcept {
  detail::Grant unwanted;
  std::optional<detail::WaitOutcome> outcome;
  {
    const base::Mutex::Scoped lock{asking_mutex_};
    const auto found = asking_.find(asking->waiter);
    if (found == asking_.end() || found->second != asking) return;
    asking_.erase(found);
    detail::Waiter& waiter = *asking->waiter;
    const detail::Ask ask{.claims = asking->claims, .owner = asking->owner, .held = asking->held};
    bool queued = false;  // The waiter may be gone then.
    bool granted = false;
    if (error == nullptr) {
      error = base::thrown_by([&] {
        if (!asking->only_try) {
          granted = home->space->request(ask, waiter, home->gate);
          queued = !granted;
        } else {
          queued = home->space->try_in_background(ask, waiter, home->gate);
          if (!queued) granted = home->space->try_request(ask, waiter.grant, home->gate);
        }
      });
    }
    if (queued) return;
    if (waiter.decide()) {
      outcome = granted ? detail::WaitOutcome::granted : detail::WaitOutcome::taken;
      if (error != nullptr) outcome = detail::WaitOutcome::failed;
      waiter.error = std::move(error);
    } else {
      if (granted) unwanted = waiter.grant;
      waiter.grant = {};
    }
  }
  if (outcome.has_value()) tell(*asking->waiter, *outcome);
  if (unwanted.ticket != nullptr) of(unwanted).drop(unwanted);
}

void ShardedSpace::tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept {
  const auto call = [&waiter, outcome] { waiter.done(waiter, outcome); };
  if (waiter.runs_code && base::thrown_by([&] { runner_->run(call); }) == nullptr) return;
  call();
}

// ---- The end ----

int ShardedSpace::descriptor() const noexcept {
  int only = -1;
  for (const auto& [name, shard] : shards_) {
    const std::shared_ptr<stored::StoredSpace> opened = shard->opened();
    if (opened == nullptr) continue;
    if (only >= 0) return -1;
    only = opened->descriptor();
  }
  return only;
}

std::stop_token ShardedSpace::session_lost() {
  check_process();
  bool lost = false;
  for (const auto& [name, shard] : shards_) {
    const std::shared_ptr<stored::StoredSpace> opened = shard->opened();
    lost = lost || (opened != nullptr && opened->session_lost().stop_requested());
  }
  std::stop_token token = lost_.get_token();
  while (lost && !token.stop_requested()) std::this_thread::yield();
  return token;
}

void ShardedSpace::close() noexcept {
  if (base::forked_since(fork_generation_)) return;
  std::vector<detail::Waiter*> ended;
  {
    const base::Mutex::Scoped lock{asking_mutex_};
    closed_ = true;
    std::erase_if(asking_, [&ended](const auto& item) {
      detail::Waiter* const waiter = item.second->waiter;
      if (!waiter->decide()) return false;  // It is being cancelled.
      ended.push_back(waiter);
      return true;
    });
  }
  for (detail::Waiter* const waiter : ended) tell(*waiter, detail::WaitOutcome::closed);
  for (const auto& [name, shard] : shards_) {
    if (const std::shared_ptr<stored::StoredSpace> opened = shard->close()) opened->close();
  }
}

// NOLINTNEXTLINE(bugprone-exception-escape): its caller has a reference.
void ShardedSpace::abandon() noexcept {
  close();
  const auto end_all = [self = shared_from_this()] { self->end(); };
  if (base::thrown_by([&] {
        stored::run_ending(typeid(ShardedSpace), stored::ending_limit, end_all);
      }) != nullptr) {
    end();  // No thread can be started.
  }
}

void ShardedSpace::end() noexcept {
  std::vector<std::unique_ptr<std::stop_callback<std::function<void()>>>> callbacks;
  {
    const base::Mutex::Scoped lock{mutex_};
    callbacks.swap(on_lost_);
  }
  callbacks.clear();
  for (const auto& [name, shard] : shards_) shard->end();
  runner_.reset();
}

}  // namespace tenure::sharded

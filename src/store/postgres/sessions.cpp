#include "store/postgres/sessions.hpp"

#include <algorithm>
#include <utility>

#include "store/session_entry.hpp"
#include "store/threads.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t ms_ns = 1'000'000;
// Condition variables stand still while the machine sleeps, and these deadlines do not.
constexpr std::chrono::milliseconds longest_nap = 500ms;

// Types match the operators exactly: statements.hpp says why.
constexpr std::string_view clock_sql =
    "(extract(epoch FROM clock_timestamp())::float8 * 1e9::float8)::bigint";

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

// Of what was found dead, long ago, nobody asks any more.
constexpr std::string_view insert_sql =
    "WITH old AS (DELETE FROM @.session WHERE deadline < clock_timestamp() - interval '1 hour')"
    "INSERT INTO @.session VALUES ($1, clock_timestamp() + $2::float8 * interval '1 millisecond')"
    "RETURNING ";
constexpr std::string_view renew_sql =
    "UPDATE @.session SET deadline = clock_timestamp() + $2::float8 * interval '1 millisecond'"
    "WHERE id=$1 AND deadline > clock_timestamp() RETURNING ";
constexpr std::string_view find_sql =
    "SELECT (extract(epoch FROM deadline - clock_timestamp())::float8 * 1e9::float8)::bigint "
    "FROM @.session WHERE id=$1";
constexpr std::string_view bury_sql =
    "DELETE FROM @.session WHERE id=$1 AND deadline <= clock_timestamp()";
constexpr std::string_view end_sql = "DELETE FROM @.session WHERE id=$1";

std::string with_clock(const Target& target, std::string_view sql) {
  return target.in_schema(sql).append(clock_sql);
}

Params of(std::string_view id) {
  Params params;
  params.add_text(id);
  return params;
}

Params of(std::string_view id, std::chrono::milliseconds ttl) {
  Params params = of(id);
  params.add_number(ttl.count());
  return params;
}

bool is_id(std::string_view id) {
  return id.size() == 16 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Sessions::Sessions(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)),
      insert_{.name = "tenure_open", .sql = with_clock(engine_->target(), insert_sql)},
      renew_{.name = "tenure_renew", .sql = with_clock(engine_->target(), renew_sql)},
      find_{.name = "tenure_find", .sql = engine_->target().in_schema(find_sql)},
      bury_{.name = "tenure_bury", .sql = engine_->target().in_schema(bury_sql)},
      end_{.name = "tenure_end", .sql = engine_->target().in_schema(end_sql)},
      random_(random_seed()) {}

std::string Sessions::open(std::chrono::milliseconds ttl, std::stop_source lost) {
  Own own;
  own.ttl = ttl.count() <= 0 ? default_ttl : std::clamp(ttl, min_ttl, max_ttl);
  own.lost = std::move(lost);
  const std::string id = stores::session_id(random_seed());
  const std::int64_t sent = boot_ns();
  const Result result = engine_->ask(insert_, of(id, own.ttl));
  engine_->saw_clock(result.number(0, 0), sent);
  own.lost_at = sent + (own.ttl - own.ttl / 3).count() * ms_ns;
  const Lock lock{mutex_};
  own.renew_at = next_renewal(own.ttl);
  own_.emplace(id, std::move(own));
  start();
  changed_.notify_all();
  return id;
}

bool Sessions::check(const std::string& id) {
  const Lock lock{mutex_};
  const auto at = own_.find(id);
  if (at == own_.end()) return false;
  if (boot_ns() < at->second.lost_at) return true;
  lose(id);
  return false;
}

void Sessions::end(const std::string& id) noexcept {
  {
    const Lock lock{mutex_};
    own_.erase(id);
  }
  try {
    engine_->ask(end_, of(id));
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // Its deadline ends it.
  }
}

std::chrono::nanoseconds Sessions::left(std::string_view id) {
  if (!is_id(id)) return 0ns;
  for (;;) {
    const Result found = engine_->ask(find_, of(id));
    if (found.rows() == 0) return 0ns;
    if (const std::int64_t left = found.number(0, 0); left > 0)
      return std::chrono::nanoseconds{left};
    engine_->ask(bury_, of(id));  // Unless it was renewed in between.
  }
}

// Three in its time; at random, so that a thousand clients do not come at once.
std::int64_t Sessions::next_renewal(std::chrono::milliseconds ttl) {
  const double share = std::uniform_real_distribution{0.22, 0.33}(random_);
  return boot_ns() + static_cast<std::int64_t>(static_cast<double>(ttl.count() * ms_ns) * share);
}

void Sessions::start() {
  if (stopping_) return;
  // Each on its own: the last attempt may have got one thread and not the other.
  if (!renewer_.joinable()) {
    renewer_ = stores::quiet_thread([self = shared_from_this()] { self->renew_all(); });
  }
  if (!counter_.joinable()) {
    counter_ = stores::quiet_thread([self = shared_from_this()] { self->count_down(); });
  }
}

void Sessions::renew_all() {
  Lock lock{mutex_};
  while (!stopping_) {
    const auto next =
        std::ranges::min_element(own_, {}, [](const auto& one) { return one.second.renew_at; });
    const std::int64_t nap =
        next == own_.end() ? longest_nap.count() * ms_ns : next->second.renew_at - boot_ns();
    if (nap > 0) {
      changed_.wait_for(
          lock, std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds{nap}, longest_nap));
      continue;
    }
    const auto [id, own] = *next;
    lock.unlock();
    renew(id, own);
    lock.lock();
  }
  lock.unlock();
  connection_.reset();
}

void Sessions::renew(const std::string& id, const Own& own) {
  bool dead = false;
  bool renewed = false;
  std::int64_t sent = 0;
  try {
    if (connection_ && connection_->stale()) lose_connection();
    if (!connection_) connection_ = engine_->connect(0ms);
    sent = boot_ns();
    const Result result = connection_->call(renew_, of(id, own.ttl), {.limit = own.ttl / 4});
    dead = result.rows() == 0;
    renewed = !dead;
    if (renewed) engine_->saw_clock(result.number(0, 0), sent);
  } catch (const Failed& failed) {
    if (failed.broken()) lose_connection();
  } catch (const Error&) {
    lose_connection();
  }
  const Lock lock{mutex_};
  const auto at = own_.find(id);
  if (at == own_.end()) return;
  if (dead) {
    lose(id);
    return;
  }
  if (renewed) {
    at->second.lost_at = sent + (own.ttl - own.ttl / 3).count() * ms_ns;
    at->second.renew_at = next_renewal(own.ttl);
    changed_.notify_all();
  } else {
    at->second.renew_at =
        boot_ns() + std::clamp<std::int64_t>(own.ttl.count() / 40, 10, 250) * ms_ns;
  }
}

void Sessions::lose_connection() {
  connection_.reset();
  engine_->doubt();
}

void Sessions::count_down() {
  Lock lock{mutex_};
  while (!stopping_) {
    const auto next =
        std::ranges::min_element(own_, {}, [](const auto& one) { return one.second.lost_at; });
    const std::int64_t nap =
        next == own_.end() ? longest_nap.count() * ms_ns : next->second.lost_at - boot_ns();
    if (nap <= 0) {
      lose(std::string{next->first});
    } else {
      changed_.wait_for(
          lock, std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds{nap}, longest_nap));
    }
  }
}

// Stop callbacks are the program's own code: they get a thread.
void Sessions::lose(const std::string& id) {
  const auto at = own_.find(id);
  stores::quiet_thread([lost = std::move(at->second.lost)]() mutable {
    lost.request_stop();
  }).detach();
  own_.erase(at);
}

void Sessions::stop() {
  std::thread renewer;
  std::thread counter;
  {
    const Lock lock{mutex_};
    stopping_ = true;
    renewer = std::move(renewer_);
    counter = std::move(counter_);
    changed_.notify_all();
  }
  if (renewer.joinable()) renewer.join();
  if (counter.joinable()) counter.join();
}

}  // namespace tenure::postgres

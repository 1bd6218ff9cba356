// Opening a store, and its facts for `tenure doctor`.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/watches.hpp"
#include "store/threads.hpp"

namespace tenure::etcd {
namespace {

// The stores of this process, by URL. Two stores of one URL would be correct, but would have two
// connections.
struct Registry {
  base::Mutex mutex;
  std::map<std::string, std::weak_ptr<EtcdStore>, std::less<>> stores TENURE_GUARDED_BY(mutex);

  static Registry& instance() {
    static auto* const registry = new Registry;  // A store may outlive every static object.
    return *registry;
  }
};

// Throws in a child of a process that has used gRPC.
void check_not_forked_in_use() {
  constexpr auto never = std::numeric_limits<std::uint64_t>::max();
  static std::atomic<std::uint64_t> used_in = never;
  const std::uint64_t now = base::fork_generation();
  std::uint64_t before = never;
  if (!used_in.compare_exchange_strong(before, now) && before != now) throw_grpc_forked();
}

}  // namespace

void throw_grpc_forked() {
  throw Error(
      "etcd can't be used in this process: it was forked after its parent had opened an etcd: "
      "space, and gRPC does not support that. Fork before the first etcd: space is opened, or "
      "exec a new program in the child");
}

std::shared_ptr<EtcdStore> open_etcd_alone(std::string_view url) {
  check_not_forked_in_use();
  // On another thread: gRPC starts threads, which inherit the signal mask. The caller may wait up
  // to `timeout` for a connection, and must not block the program's signals meanwhile.
  std::shared_ptr<Executor> executor;
  std::exception_ptr error;
  stores::quiet_thread([&] {
    try {
      executor = std::make_shared<Executor>(parse_address(url));
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error != nullptr) std::rethrow_exception(error);
  return std::make_shared<EtcdStore>(std::move(executor));
}

std::shared_ptr<Store> open_etcd(std::string_view url) {
  // Before locking the mutex, which a thread of the parent may have held.
  check_not_forked_in_use();
  Registry& registry = Registry::instance();
  const base::Mutex::Scoped lock{registry.mutex};
  if (const auto at = registry.stores.find(url); at != registry.stores.end()) {
    if (auto store = at->second.lock(); store && !store->forked()) return store;
  }
  auto store = open_etcd_alone(url);
  std::erase_if(registry.stores, [](const auto& one) { return one.second.expired(); });
  registry.stores.insert_or_assign(std::string{url}, store);
  return store;
}

std::vector<Store::Fact> EtcdStore::facts() {
  check_forked();
  Executor& executor = *parts_->executor;
  const Address& address = executor.client().address();
  std::vector<Fact> facts;
  const auto add = [&facts](std::string name, std::string value) {
    facts.push_back({.name = std::move(name), .value = std::move(value)});
  };
  add("kind", "etcd");
  add("address", address.text());
  add("prefix", address.prefix);
  const std::string tls = address.cert_file.empty() ? "yes" : "yes, mutual";
  add("tls", address.tls ? tls : "no");
  add("user", address.user.empty() ? "none" : address.user);
  for (const Client::Status& one : executor.client().status()) {
    add("member " + one.endpoint,
        one.version.empty() ? "can't be reached: " + one.error
                            : "etcd " + one.version + ", " + std::to_string(one.database_size) +
                                  " bytes, " + (one.has_leader ? "has a leader" : "has no leader"));
  }
  Txn sessions;
  sessions.reads.push_back(Range::prefix(std::string{session_prefix}));
  const Outcome outcome = apply(sessions);
  std::size_t dead = 0;
  for (const Entry& entry : outcome.reads.front()) {
    if (!alive(std::string_view{entry.key}.substr(session_prefix.size()))) ++dead;
  }
  const auto offset = std::chrono::duration_cast<std::chrono::milliseconds>(
      now() - Instant{std::chrono::system_clock::now()});
  add("revision", std::to_string(outcome.revision.value));
  add("clock ahead of wall time, ms", std::to_string(offset.count()));
  add("sessions", std::to_string(outcome.reads.front().size()));
  add("sessions dead", std::to_string(dead));
  add("notices", std::to_string(parts_->watches->heard()));
  return facts;
}

}  // namespace tenure::etcd

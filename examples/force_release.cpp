// A mutex that lives in a store, not in a process: a worker crashed while it held the mutex, and an
// operator sees who holds it and releases it, instead of waiting for the end of the lease.
#include "tenure/state.hpp"

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

namespace {

using tenure::AtomicState;
using tenure::DurableMutex;
using tenure::LockRecord;

void show(const DurableMutex& mutex, const AtomicState<LockRecord>& slot) {
  const LockRecord record = mutex.inspect(slot).value_or(LockRecord{});
  std::cout << slot.address().text() << ": holders";
  for (const auto& holder : record.holders) std::cout << ' ' << holder.id;
  std::cout << "; waiters";
  for (const auto& waiter : record.waiters) std::cout << ' ' << waiter.id;
  std::cout << '\n';
}

}  // namespace

int main() {
  // "memory:" so that it leaves nothing behind; "sqlite:app.db" is the same for many processes.
  const std::shared_ptr<tenure::Store> store = tenure::store("memory:");
  const DurableMutex mutex{{.lease = std::chrono::hours{24}}};

  {  // A worker acquires the mutex, and dies.
    const AtomicState<LockRecord> slot{store,
                                       tenure::slot::workflow("transfer", "account-42:lock")};
    mutex.try_acquire(slot, {.holder = "run-7", .now = store->now()});
    mutex.try_acquire(slot, {.holder = "run-8", .now = store->now()});
  }

  // The operator wrote the address down, and needs nothing else.
  const AtomicState<LockRecord> slot{store,
                                     tenure::slot::parse("workflow/transfer/account-42:lock")};
  show(mutex, slot);
  const std::string stuck = mutex.inspect(slot).value().holders.at(0).id;
  mutex.release(slot, {.holder = stuck, .now = store->now()});
  show(mutex, slot);

  // The next worker asks again, and has it.
  const auto next = mutex.try_acquire(slot, {.holder = "run-8", .now = store->now()});
  std::cout << "run-8 acquired: " << std::boolalpha << next.acquired << '\n';
}

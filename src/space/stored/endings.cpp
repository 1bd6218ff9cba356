#include "space/stored/endings.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <tuple>
#include <typeindex>
#include <utility>

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"

namespace tenure::stored {
namespace {

struct Endings {
  const std::uint64_t generation = base::fork_generation();
  base::ThreadGroup threads;
  base::Mutex mutex;
  std::set<std::type_index> kinds TENURE_GUARDED_BY(mutex);
  std::chrono::steady_clock::time_point until TENURE_GUARDED_BY(mutex);

  void wait() {
    std::chrono::steady_clock::time_point end;
    {
      const base::Mutex::Scoped lock{mutex};
      end = until;
    }
    threads.wait_for(end - std::chrono::steady_clock::now());
  }

  // Never destroyed: threads may outlive every static. A forked child gets its own: it has none of
  // its parent's threads.
  static Endings& instance() {
    static std::atomic<Endings*> newest = new Endings;
    Endings* known = newest.load();
    if (known->generation == base::fork_generation()) return *known;
    auto own = std::make_unique<Endings>();
    return newest.compare_exchange_strong(known, own.get()) ? *own.release() : *known;
  }
};

}  // namespace

void run_ending(const std::type_info& kind, std::chrono::nanoseconds limit,
                std::function<void()> job) {
  Endings& endings = Endings::instance();
  {
    const base::Mutex::Scoped lock{endings.mutex};
    endings.until = std::max(endings.until, std::chrono::steady_clock::now() + limit);
    if (endings.kinds.insert(kind).second) {
      std::ignore = std::atexit([] { Endings::instance().wait(); });
    }
  }
  endings.threads.run(std::move(job));
}

}  // namespace tenure::stored

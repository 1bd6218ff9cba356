#include "space/stored/lifetime.hpp"

#include <chrono>

#include "space/stored/endings.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

using namespace std::chrono_literals;

thread_local int Lifetime::InStore::depth = 0;
thread_local const Lifetime* Lifetime::Working::current = nullptr;

void Lifetime::check_open() const {
  if (forked()) {
    throw Error(
        "this space was opened before fork() and belongs to the parent process: open it after "
        "fork(), in the process that uses it");
  }
  if (closed()) throw Closed("this space is closed: open it again");
}

void Lifetime::check_process() const {
  if (forked())
    throw Error("this hold belongs to the parent process: a forked child must lock again");
}

void Lifetime::leave() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1 || forked()) return;
  // Calls of a Locker that outlives the space enter and leave, too.
  if (ending_.exchange(true, std::memory_order_acq_rel)) return;
  bool awaited = true;
  {
    const base::Mutex::Scoped lock{mutex_};
    awaited = !given_up_;
  }
  try {
    run_ending(kind_, awaited ? ending_limit : 0s, [this] { end(); });
  } catch (...) {
    // No thread can be started. If this thread cannot end the space, exit() ends the session.
    if (!InStore::here() && !Working::here(*this)) end();
  }
}

void Lifetime::end() noexcept {
  end_();
  {
    const base::Mutex::Scoped lock{mutex_};
    ended_ = true;
    changed_.notify_all();
  }
  disown();
}

void Lifetime::hold_begins() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  ++holds_;
}

void Lifetime::hold_ends() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  --holds_;
  changed_.notify_all();
}

void Lifetime::post_begins() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  ++posts_;
}

void Lifetime::post_ends() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  --posts_;
  changed_.notify_all();
}

void Lifetime::await_end() noexcept {
  if (InStore::here() || Working::here(*this)) return;
  const auto until = std::chrono::steady_clock::now() + ending_limit;
  base::Mutex::Scoped lock{mutex_};
  while (!given_up_ && !ended_ && (holds_ == 0 || posts_ > 0)) {
    given_up_ = changed_.wait_until(lock, until) == std::cv_status::timeout;
  }
}

void Lifetime::disown() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_();
}

}  // namespace tenure::stored

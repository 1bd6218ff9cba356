#include "space/runner.hpp"

#include <utility>

namespace tenure::space {

Runner::~Runner() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock{state_->mutex};
    state_->ending = true;
  }
  state_->changed.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

std::thread Runner::new_thread(std::function<void()> body) { return std::thread{std::move(body)}; }

void Runner::run(std::function<void()> job) {
  // Kept: the job may end the space, and this with it, as soon as it is queued.
  const std::shared_ptr<State> state = state_;
  {
    const std::scoped_lock lock{state->mutex};
    // The thread first: a caller who gets none keeps the job, so the job must not be queued.
    if (!thread_.joinable()) thread_ = start_([state] { work(state); });
    state->jobs.push_back(std::move(job));
  }
  state->changed.notify_one();
}

void Runner::forget() noexcept {
  if (thread_.joinable()) thread_.detach();
}

void Runner::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock{state->mutex};
  for (;;) {
    state->changed.wait(lock, [&state] { return state->ending || !state->jobs.empty(); });
    if (state->jobs.empty()) return;
    const std::function<void()> job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace tenure::space

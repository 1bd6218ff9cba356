#include "base/thread_group.hpp"

#include <csignal>

#include <algorithm>
#include <utility>

namespace tenure::base {
namespace {

constexpr std::chrono::nanoseconds longest_wait = std::chrono::hours{24 * 365};

}  // namespace

void ThreadGroup::run(std::function<void()> job) {
  join_finished(*state_);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  // Locked until the thread is in the list, because the thread looks itself up there.
  const Mutex::Scoped lock{state_->mutex};
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread{[state = state_, own = std::move(job)]() mutable {
      own();
      own = nullptr;  // Destroys its captures before the group counts the job as done.
      const Mutex::Scoped inner{state->mutex};
      const auto at = state->running.find(std::this_thread::get_id());
      if (at == state->running.end()) return;  // wait_for() has given it up.
      state->finished.push_back(std::move(at->second));
      state->running.erase(at);
      state->changed.notify_all();
    }};
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const std::thread::id id = thread.get_id();
  state_->running.emplace(id, std::move(thread));
}

void ThreadGroup::join_finished(State& state) {
  std::vector<std::thread> finished;
  {
    const Mutex::Scoped lock{state.mutex};
    finished.swap(state.finished);
  }
  for (std::thread& thread : finished) thread.join();
}

bool ThreadGroup::wait_for(std::chrono::nanoseconds limit) {
  const auto until = std::chrono::steady_clock::now() + std::min(limit, longest_wait);
  bool in_time = true;
  bool all = true;
  {
    Mutex::Scoped lock{state_->mutex};
    const auto self = state_->running.find(std::this_thread::get_id());
    const std::size_t own = self == state_->running.end() ? 0 : 1;
    while (in_time && state_->running.size() > own) {
      in_time = state_->changed.wait_until(lock, until) == std::cv_status::no_timeout;
    }
    all = state_->running.size() <= own;
    for (auto& [id, thread] : state_->running) thread.detach();
    state_->running.clear();
  }
  join_finished(*state_);
  return all;
}

}  // namespace tenure::base

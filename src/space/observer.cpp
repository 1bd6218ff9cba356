// The tickets of a space, as they come and go.
#include <condition_variable>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"

namespace tenure {

// Mutex: guards the flag, and who waits for it. It is not locked while the space is looked at.
class Observer::State {
 public:
  State(std::shared_ptr<detail::Backend> backend, const Path& path)
      : backend_(std::move(backend)),
        limits_(backend_->time_limits()),
        watch_(backend_->watch(path, [this] { on_change(); })),
        on_close_(backend_->closing().get_token(), [this] { on_change(); }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  [[nodiscard]] std::optional<std::vector<TicketInfo>> wait(const std::stop_token& stop) {
    const std::stop_callback on_stop{stop, [this] { wake(); }};
    for (;;) {
      {
        const base::Mutex::Scoped lock{mutex_};
        while (!changed_ && !stop.stop_requested()) woken_.wait(mutex_);
        if (stop.stop_requested()) return std::nullopt;
        changed_ = false;
      }
      if (look()) return seen_;
    }
  }

  // For a coroutine: calls it when it may be time to call poll(); at once if it is now.
  void listen(std::function<void()> ready) {
    bool now = false;
    {
      const base::Mutex::Scoped lock{mutex_};
      ready_ = std::move(ready);
      now = changed_;
    }
    if (now) call_ready();
  }
  void listen_no_more() {
    const base::Mutex::Scoped lock{mutex_};
    ready_ = nullptr;
  }
  // Nothing: no change yet.
  [[nodiscard]] std::optional<std::vector<TicketInfo>> poll() {
    {
      const base::Mutex::Scoped lock{mutex_};
      if (!std::exchange(changed_, false)) return std::nullopt;
    }
    if (look()) return seen_;
    return std::nullopt;
  }
  // Calls it soon, on a thread that may run code of the program.
  void call_soon(std::function<void()> call) {
    limits_->call_at(detail::TimeLimits::Clock::now(), std::move(call));
  }

 private:
  // True: the tickets are others than those seen last.
  bool look() {
    std::vector<TicketInfo> now;
    try {
      if (backend_->closing().stop_requested()) throw Closed("the space was closed: open it again");
      now = watch_->look();
    } catch (...) {
      const base::Mutex::Scoped lock{mutex_};
      changed_ = true;  // The next call looks again.
      throw;
    }
    if (seen_.has_value() && *seen_ == now) return false;
    seen_ = std::move(now);
    return true;
  }
  void wake() {
    const base::Mutex::Scoped lock{mutex_};
    woken_.notify_all();
  }
  void on_change() {
    {
      const base::Mutex::Scoped lock{mutex_};
      changed_ = true;
      woken_.notify_all();
    }
    call_ready();
  }
  void call_ready() {
    std::function<void()> ready;
    {
      const base::Mutex::Scoped lock{mutex_};
      ready = ready_;
    }
    if (ready) call_soon(std::move(ready));
  }

  const std::shared_ptr<detail::Backend> backend_;
  const std::shared_ptr<detail::TimeLimits> limits_;
  std::optional<std::vector<TicketInfo>> seen_;
  base::Mutex mutex_;
  std::condition_variable_any woken_;
  bool changed_ TENURE_GUARDED_BY(mutex_) = true;
  std::function<void()> ready_ TENURE_GUARDED_BY(mutex_);
  std::unique_ptr<detail::TicketWatch> watch_;  // Last: they call on_change().
  std::stop_callback<std::function<void()>> on_close_;
};

Observer::Observer(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
Observer::Observer(Observer&&) noexcept = default;
Observer& Observer::operator=(Observer&&) noexcept = default;
Observer::~Observer() = default;

// NOLINTNEXTLINE(bugprone-unchecked-optional-access): only a stop ends a wait with nothing.
std::vector<TicketInfo> Observer::next() { return *state_->wait({}); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the header has it.
std::optional<std::vector<TicketInfo>> Observer::next(std::stop_token stop) {
  return state_->wait(stop);
}

Observer::Next Observer::async_next(std::stop_token stop) { return {state_, std::move(stop)}; }

// ---- In a coroutine ----

// Shared by the coroutine's frame and by the calls under way: the frame may be destroyed first.
class Observer::Next::Wait : public std::enable_shared_from_this<Wait> {
 public:
  Wait(std::shared_ptr<State> state, std::coroutine_handle<> coroutine) noexcept
      : state_(std::move(state)), coroutine_(coroutine) {}

  void start(const std::stop_token& stop) {
    const auto again = [self = shared_from_this()] { self->look(); };
    {
      const base::Mutex::Scoped lock{mutex_};
      stop_ = stop;
      on_stop_.emplace(stop, [again, state = state_.get()] { state->call_soon(again); });
    }
    state_->listen(again);
  }
  void destroy() {
    const base::Mutex::Scoped lock{mutex_};
    end();
  }
  [[nodiscard]] std::optional<std::vector<TicketInfo>> take() {
    if (error_ != nullptr) std::rethrow_exception(error_);
    return std::move(tickets_);
  }

 private:
  // On the thread of the limits, one call at a time.
  void look() {
    std::coroutine_handle<> resume;
    {
      const base::Mutex::Scoped lock{mutex_};
      if (coroutine_ == nullptr) return;
      try {
        tickets_ = state_->poll();
      } catch (...) {
        error_ = std::current_exception();
      }
      if (!tickets_.has_value() && error_ == nullptr && !stop_.stop_requested()) return;
      resume = coroutine_;
      end();
    }
    resume.resume();
  }
  void end() TENURE_REQUIRES(mutex_) {
    coroutine_ = nullptr;
    on_stop_.reset();  // Its call takes no lock of this.
    state_->listen_no_more();
  }

  const std::shared_ptr<State> state_;
  base::Mutex mutex_;
  std::stop_token stop_ TENURE_GUARDED_BY(mutex_);
  std::optional<std::stop_callback<std::function<void()>>> on_stop_ TENURE_GUARDED_BY(mutex_);
  std::coroutine_handle<> coroutine_ TENURE_GUARDED_BY(mutex_);
  std::optional<std::vector<TicketInfo>> tickets_;
  std::exception_ptr error_;
};

Observer::Next::~Next() {
  if (wait_ != nullptr) wait_->destroy();
}

void Observer::Next::await_suspend(std::coroutine_handle<> coroutine) {
  const std::shared_ptr<Wait> wait = std::make_shared<Wait>(state_, coroutine);
  wait_ = wait;  // The coroutine may go on, and end, inside of the next call.
  wait->start(stop_);
}

std::optional<std::vector<TicketInfo>> Observer::Next::await_resume() {
  return std::exchange(wait_, nullptr)->take();
}

Observer Space::observe(const Path& path) const {
  return Observer{std::make_shared<Observer::State>(backend_, path)};
}

}  // namespace tenure

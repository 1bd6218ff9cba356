#include "tenure/detail/time_limits.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.hpp"
#include "space/runner.hpp"
#include "space/timers.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::detail {
namespace {

// Timers have the type of the store's clock; these count by the steady one.
Instant disguised(TimeLimits::Clock::time_point time) {
  return Instant{std::chrono::nanoseconds{time.time_since_epoch()}};
}

class Limits final : public TimeLimits {
 public:
  std::uint64_t call_at(Clock::time_point at, std::function<void()> call) override {
    const std::uint64_t number = ++calls_;
    timers_.set(number, disguised(at), [this, call = std::move(call)] { runner_.run(call); });
    return number;
  }
  void cancel(std::uint64_t call) noexcept override { timers_.cancel(call); }

 private:
  std::atomic<std::uint64_t> calls_ = 0;
  space::Runner runner_;
  space::Timers timers_{[] { return disguised(Clock::now()); }};  // Last: its calls use the above.
};

}  // namespace

std::shared_ptr<TimeLimits> Backend::time_limits() {
  const std::scoped_lock lock{limits_mutex_};
  if (limits_ == nullptr) {
    // In a forked child, its threads do not exist, and can't be joined.
    const auto forget = [generation = base::fork_generation()](TimeLimits* limits) {
      if (!base::forked_since(generation)) delete limits;
    };
    limits_ = {new Limits, forget};
  }
  return limits_;
}

}  // namespace tenure::detail

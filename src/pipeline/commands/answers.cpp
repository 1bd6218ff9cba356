#include "pipeline/commands/answers.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <utility>

#include "base/detached.hpp"

namespace tenure::pipeline {
namespace {

// NOLINTNEXTLINE(readability-static-accessed-through-instance): the compiler does that.
base::Detached wait_for(std::shared_ptr<Answers> answers, std::vector<ClaimSet> sets,
                        std::stop_token stop, Index task) {
  ClaimAnswer answer{.task = task};
  try {
    for (const ClaimSet& set : sets) {
      Request request{set.claims};
      std::optional<Hold> hold = co_await set.locker.async_lock(std::move(request), stop);
      if (!hold) {
        answer.error = "cancelled";
        break;
      }
      answer.holds.push_back(std::move(*hold));
    }
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  if (!answer.error.empty()) answer.holds.clear();
  answers->put(std::move(answer));
}

}  // namespace

Answers::Answers() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.get() < 0) process::fail_system("eventfd");
}

void Answers::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

void Answers::put(ClaimAnswer answer) {
  const std::scoped_lock lock{mutex_};
  waiting_.claims.push_back(std::move(answer));
  wake();
}

void Answers::put(HttpAnswer answer) {
  const std::scoped_lock lock{mutex_};
  waiting_.http.push_back(std::move(answer));
  wake();
}

void Answers::put_lost(Index task) {
  const std::scoped_lock lock{mutex_};
  waiting_.lost.push_back(task);
  wake();
}

Answers::Taken Answers::take() {
  const std::scoped_lock lock{mutex_};
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_.get(), &count, sizeof count));
  return std::exchange(waiting_, {});
}

void ask_for_claims(std::shared_ptr<Answers> answers, std::vector<ClaimSet> sets,
                    std::stop_token stop, Index task) {
  wait_for(std::move(answers), std::move(sets), std::move(stop), task);
}

}  // namespace tenure::pipeline

#include "space/runner.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tenure::space {
namespace {

int refusals = 0;  // How many of the next threads can't be started.

std::thread start(std::function<void()> body) {
  if (refusals > 0) {
    --refusals;
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
  return std::thread{std::move(body)};
}

TEST(Runner, RunsJobsInOrderAndWhatIsLeftAtItsEnd) {
  std::string log;
  {
    Runner runner;
    for (const char* const name : {"a", "b", "c"}) runner.run([&log, name] { log += name; });
  }
  EXPECT_EQ(log, "abc");
}

// A caller that gets no thread runs the job itself, so the job must not run a second time.
TEST(Runner, AJobForWhichNoThreadCanBeStartedNeverRuns) {
  std::string log;
  {
    Runner runner{start};
    refusals = 2;
    EXPECT_THROW(runner.run([&log] { log += "refused"; }), std::system_error);
    EXPECT_THROW(runner.run([&log] { log += "refused"; }), std::system_error);
    runner.run([&log] { log += "run"; });
  }
  EXPECT_EQ(log, "run");
}

}  // namespace
}  // namespace tenure::space

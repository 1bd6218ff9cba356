// Waits that never end fail, and say what they waited for.
#include "tests/kit/patience.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX's.
#include <unistd.h>

#include <csignal>

#include "tests/kit/process.hpp"

namespace tenure::kit {
namespace {

const auto aborts = ::testing::KilledBySignal(SIGABRT);

void be_impatient() { ::setenv("TENURE_TEST_PATIENCE", "1", 1); }

TEST(KitPatienceDeathTest, AStateThatNeverComesIsReportedWithItsLine) {
  EXPECT_EXIT(
      {
        be_impatient();
        until([] { return false; });
      },
      aborts, "patience_test.cpp:[0-9]+: Failure\n.* waited 1 s for this state");
}

TEST(KitPatienceDeathTest, ACallThatNeverReturnsIsReportedWithItsTest) {
  EXPECT_EXIT(
      {
        be_impatient();
        begin_test("Suite", "Name");
        for (;;) ::pause();
      },
      aborts, "Failure\nSuite.Name reached its time limit");
}

TEST(KitPatienceDeathTest, AnAnswerThatNeverComesIsReported) {
  EXPECT_EXIT(
      {
        be_impatient();
        const Process silent{[](const Line&) { ::pause(); }};
        begin_test("Suite", "Name");
        static_cast<void>(silent.hear());
      },
      aborts, "waited for a message from another process");
}

}  // namespace
}  // namespace tenure::kit

// The main() of every test program: each test has a time limit, after which it says what it waited
// for.
#include <gtest/gtest.h>

#include "tests/kit/patience.hpp"

namespace tenure::kit {
namespace {

class Limit : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    begin_test(test.test_suite_name(), test.name());
  }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override { end_test(); }
};

}  // namespace
}  // namespace tenure::kit

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // gtest deletes it.
  ::testing::UnitTest::GetInstance()->listeners().Append(new tenure::kit::Limit);
  return RUN_ALL_TESTS();
}

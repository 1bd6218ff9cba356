#include "space/stored/request_threads.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <string>

namespace tenure::stored {
namespace {

TEST(RequestThreads, JobsOfOneLaneRunInOrderAndWhatIsLeftAtTheEnd) {
  std::string log;
  {
    RequestThreads threads;
    const RequestThreads::Lane lane = RequestThreads::of_this_thread();
    for (int i = 0; i < 100; ++i) threads.run(lane, [&log, i] { log += std::to_string(i % 10); });
  }
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += std::to_string(i % 10);
  EXPECT_EQ(log, expected);
}

TEST(RequestThreads, ALaneThatIsStuckDelaysNoOther) {
  std::latch go_on{1};
  std::latch others{20};
  RequestThreads threads;  // Goes first: its threads use the latches.
  for (std::size_t i = 1; i < RequestThreads::max_threads; ++i) {
    threads.run(RequestThreads::own(), [&go_on] { go_on.wait(); });
  }
  for (int i = 0; i < 20; ++i) threads.run(RequestThreads::own(), [&] { others.count_down(); });
  others.wait();
  go_on.count_down();
}

}  // namespace
}  // namespace tenure::stored

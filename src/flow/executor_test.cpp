#include "flow/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "store/common/told_together.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::flow {
namespace {

using namespace std::chrono_literals;
using stores::ToldTogether;

constexpr auto patience = 60s;  // A test that fails ends.

// Jobs that do nothing, one after the other: the pool learns that jobs are short.
void make_lazy(ThreadPool& pool) {
  for (int i = 0; i < 200; ++i) {
    std::promise<void> ran;
    pool.post([&] { ran.set_value(); });
    ASSERT_EQ(ran.get_future().wait_for(patience), std::future_status::ready);
  }
}

TEST(FlowThreadPool, AJobThatWaitsForALaterOneKeepsNobody) {
  const auto pool = std::make_shared<ThreadPool>(2);
  make_lazy(*pool);
  std::promise<void> later;
  std::promise<void> done;
  pool->post([&, seen = later.get_future().share()] {
    EXPECT_EQ(seen.wait_for(patience), std::future_status::ready);
    done.set_value();
  });
  pool->post([&] { later.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(patience), std::future_status::ready);
  pool->stop();
}

TEST(FlowThreadPool, AsManyJobsRunAtOnceAsThereAreThreads) {
  constexpr std::ptrdiff_t threads = 8;
  const auto pool = std::make_shared<ThreadPool>(threads);
  for (int round = 0; round < 3; ++round) {
    make_lazy(*pool);
    std::latch all{threads};
    std::vector<std::future<void>> done;
    {
      const ToldTogether together;
      for (std::ptrdiff_t i = 0; i < threads; ++i) {
        auto ended = std::make_shared<std::promise<void>>();
        done.push_back(ended->get_future());
        pool->post([&all, ended] {
          all.arrive_and_wait();
          ended->set_value();
        });
      }
    }
    for (const std::future<void>& one : done) {
      ASSERT_EQ(one.wait_for(patience), std::future_status::ready);
    }
  }
  pool->stop();
}

TEST(FlowThreadPool, AJobOfACallbackRunsAtTheLatestAfterTheBatch) {
  const auto pool = std::make_shared<ThreadPool>(2);
  for (int i = 0; i < 100; ++i) {
    std::promise<void> ran;
    {
      const ToldTogether together;
      pool->post([&] { ran.set_value(); });
    }
    ASSERT_EQ(ran.get_future().wait_for(patience), std::future_status::ready);
  }
  pool->stop();
}

// Along with the jobs of its batch or in the other pool, but once. Without such jobs, in the other.
TEST(FlowThreadPool, AShortJobOfABatchRunsOnce) {
  const auto pool = std::make_shared<ThreadPool>(2);
  const auto other = std::make_shared<ThreadPool>(1);
  const auto id_of = [](ThreadPool& one) {
    std::promise<std::thread::id> ran;
    one.post([&] { ran.set_value(std::this_thread::get_id()); });
    return ran.get_future().get();
  };
  const std::thread::id elsewhere = id_of(*other);
  make_lazy(*pool);
  std::atomic<int> jobs = 0;
  std::atomic<int> along = 0;
  std::atomic<int> there = 0;
  const auto short_job = [&] {
    ++along;
    if (std::this_thread::get_id() == elsewhere) ++there;
  };
  pool->post_along(short_job, other);
  for (const int batch : {0, 1, 10, 100}) {
    const ToldTogether together;
    pool->post_along(short_job, other);
    for (int i = 0; i < batch; ++i) pool->post([&] { ++jobs; });
    pool->post_along(short_job, other);
  }
  pool->stop();
  other->stop();
  EXPECT_EQ(jobs, 111);
  EXPECT_EQ(along, 9);
  EXPECT_GE(there, 5);  // Those without a batch of several jobs.
}

// A pool whose threads are busy: short jobs of a batch run in the other one, at once.
TEST(FlowThreadPool, AShortJobDoesNotWaitForLongOnes) {
  const auto pool = std::make_shared<ThreadPool>(2);
  const auto other = std::make_shared<ThreadPool>(1);
  std::latch busy{3};
  std::promise<void> end;
  for (const auto ended = end.get_future().share(); const int i : {1, 2}) {
    static_cast<void>(i);
    pool->post([&busy, ended] {
      busy.arrive_and_wait();
      ended.wait();
    });
  }
  busy.arrive_and_wait();
  constexpr int count = 100;
  std::latch ran{count};
  std::atomic<int> jobs = 0;
  // On a thread that has gathered nothing before.
  std::thread{[&] {
    const ToldTogether together;
    for (int i = 0; i < count; ++i) {
      pool->post([&] { ++jobs; });
      pool->post_along([&] { ran.count_down(); }, other);
    }
  }}.join();
  kit::until([&] { return ran.try_wait(); });
  EXPECT_EQ(jobs, 0);
  end.set_value();
  pool->stop();
  other->stop();
  EXPECT_EQ(jobs, count);
}

TEST(FlowThreadPool, AJobThatIsBlockedLeavesThePoolIdle) {
  const auto pool = std::make_shared<ThreadPool>(2);
  make_lazy(*pool);
  std::promise<void> begun;
  std::promise<void> ended;
  std::promise<void> blocked;
  std::promise<void> later;
  pool->post([&, end = ended.get_future().share(), seen = later.get_future().share()] {
    begun.set_value();
    end.wait();
    const ThreadPool::Blocked waits;
    blocked.set_value();
    EXPECT_EQ(seen.wait_for(patience), std::future_status::ready);
  });
  const auto tell = [&] { later.set_value(); };
  begun.get_future().wait();
  EXPECT_FALSE(pool->post_if_idle(tell));
  ended.set_value();
  blocked.get_future().wait();
  kit::until([&] { return pool->post_if_idle(tell); });  // The other thread may be going to sleep.
  pool->stop();
}

TEST(FlowThreadPool, TakesTheJobOfAnIdlePool) {
  const auto pool = std::make_shared<ThreadPool>(1);
  for (int i = 0; i < 2; ++i) {
    std::promise<void> ran;
    while (!pool->post_if_idle([&] { ran.set_value(); })) std::this_thread::yield();
    ASSERT_EQ(ran.get_future().wait_for(patience), std::future_status::ready);
  }
  pool->stop();
}

// Nobody is called twice for one job, whoever blocks when.
TEST(FlowThreadPool, RunsEveryJobOnceWhileJobsBlock) {
  std::atomic<int> ran = 0;
  const auto pool = std::make_shared<ThreadPool>(3);
  const auto job = [&] {
    const ThreadPool::Blocked waits;
    std::this_thread::yield();
    ++ran;
  };
  int posted = 0;
  for (int i = 0; i < 2'000; ++i) {
    if (i % 3 != 0) {
      pool->post(job);
      ++posted;
    } else {
      posted += pool->post_if_idle(job) ? 1 : 0;
    }
  }
  pool->stop();
  EXPECT_EQ(ran, posted);
}

TEST(FlowThreadPool, StopRunsWhatWasPosted) {
  std::atomic<int> ran = 0;
  const auto pool = std::make_shared<ThreadPool>(3);
  for (int i = 0; i < 1000; ++i) pool->post([&] { ++ran; });
  pool->stop();
  EXPECT_EQ(ran, 1000);
}

TEST(ToldTogether, CallsOnceForEachAfterTheLastCallback) {
  int first = 0;
  int second = 0;
  EXPECT_FALSE(ToldTogether::here());
  {
    const ToldTogether together;
    EXPECT_TRUE(ToldTogether::here());
    for (int i = 0; i < 3; ++i) ToldTogether::at_end(&first, [&] { ++first; });
    ToldTogether::at_end(&second, [&] {
      EXPECT_FALSE(ToldTogether::here());
      ++second;
    });
    EXPECT_EQ(first + second, 0);
  }
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace tenure::flow

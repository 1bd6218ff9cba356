#include "pipeline/commands/run_state.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "tenure/store.hpp"

namespace tenure::pipeline {
namespace {

using std::chrono::milliseconds;

TEST(RunState, KeepsWhatWasDone) {
  const std::shared_ptr<Store> store = tenure::store("memory:");
  RunInfo info{.manifest = "/a/pipeline.toml", .began = 7, .texts = {{"a", "1"}, {"b", "2"}}};
  RunState state{store};
  EXPECT_FALSE(state.newest());
  state.begin(info);
  EXPECT_EQ(info.id, "000001");
  state.start("a", 0, false);
  state.commit();
  state.end("a", TaskEnd::done, 0, milliseconds{1500});
  state.start("b", 2, false);
  state.commit();

  const RunState other{store};
  EXPECT_EQ(other.newest()->texts, info.texts);
  EXPECT_FALSE(other.newest()->ended);
  const auto tasks = other.tasks("000001");
  EXPECT_EQ(tasks.at("a").state, TaskRecord::State::done);
  EXPECT_EQ(tasks.at("a").milliseconds, 1500);
  EXPECT_EQ(tasks.at("b").state, TaskRecord::State::started);
  EXPECT_EQ(tasks.at("b").attempt, 2U);
  EXPECT_EQ(other.times().at("a"), 1500);
}

// The end of one task and the start of the next are one commit, whatever the size of the run.
TEST(RunState, MuseumS28OneCommitForAnEndAndAStart) {
  RunState state{tenure::store("memory:")};
  RunInfo info;
  state.begin(info);
  for (int i = 0; i < 100; ++i) {
    if (i > 0) state.end("t" + std::to_string(i - 1), TaskEnd::done, 0, milliseconds{1});
    state.start("t" + std::to_string(i), 0, false);
    state.commit();
  }
  EXPECT_EQ(state.commits(), 100U);
}

TEST(RunState, NewRunsHaveLargerNumbers) {
  const std::shared_ptr<Store> store = tenure::store("memory:");
  RunState state{store};
  RunInfo first;
  state.begin(first);
  state.start("z", 0, false);
  first.ended = 9;
  first.result = "failed";
  state.finish(first);
  RunInfo second;
  state.begin(second);
  EXPECT_EQ(second.id, "000002");
  EXPECT_EQ(state.newest()->id, "000002");
  EXPECT_TRUE(state.tasks("000002").empty());
  EXPECT_EQ(state.tasks("000001").size(), 1U);
}

}  // namespace
}  // namespace tenure::pipeline

// run_state.hpp: what a run of commands has done, in a store, so that another one can go on.
//
//   key                | value
//   -------------------+------------------------------------------------------------------
//   run/ID             | JSON: manifest, when it began, when it ended, the texts of its tasks
//   run/ID/task/NAME   | "started K", "done MS", "failed K", "skipped"; K: the attempt from 0
//   time/NAME          | milliseconds that the task took when it was last done
//
// IDs are numbers of six digits, so that keys sort as runs began.
//
// Invariants
//  1. "started K" is committed before attempt K starts, "done" before a dependent starts: start()
//     and end() only note it, and whoever starts a command calls commit() first.
//  2. A commit is relaxed: it survives the death of every process. With `once` among the started
//     tasks it is synced, and survives power loss.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenure/pipeline.hpp"
#include "tenure/store.hpp"

namespace tenure::pipeline {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
struct RunInfo {
  std::string id{};
  std::string manifest{};
  std::int64_t began = 0;  // Seconds since 1970.
  std::optional<std::int64_t> ended{};
  std::string result{};  // Of a run that ended: "done", "failed" or "cancelled".
  std::map<std::string, std::string> texts{};  // What each task does: task_text().
};

struct TaskRecord {
  enum class State : std::uint8_t { started, done, failed, skipped };
  State state = State::started;
  unsigned attempt = 0;
  std::int64_t milliseconds = 0;  // Of a task that is done.
};

// NOLINTEND(readability-redundant-member-init)

class RunState {
 public:
  explicit RunState(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  [[nodiscard]] std::optional<RunInfo> newest() const;
  [[nodiscard]] std::map<std::string, TaskRecord> tasks(std::string_view run) const;
  // Milliseconds, by name.
  [[nodiscard]] std::map<std::string, double> times() const;

  // A new run; sets its id. `info` is written again by finish().
  void begin(RunInfo& info);
  // Goes on with one that is there.
  void go_on(const RunInfo& info) { run_ = info.id; }
  void finish(RunInfo& info);

  void start(const std::string& task, unsigned attempt, bool once);
  void end(const std::string& task, TaskEnd end, unsigned attempt, std::chrono::milliseconds took);
  void commit();
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }

 private:
  [[nodiscard]] std::string key(const std::string& task) const;

  std::shared_ptr<Store> store_;
  std::string run_;
  Txn noted_;
  std::uint64_t commits_ = 0;
};

}  // namespace tenure::pipeline

// pipeline_control.hpp: what people do to a run: signals, keys, Ctrl-Z.
//
//   what                  | stage    | what happens
//   ----------------------+----------+-----------------------------------------------------------
//   q                     | finish   | nothing more starts; tasks that run finish; exit status 130
//   SIGINT, SIGTERM, HUP; | end      | tasks that run get SIGTERM, and SIGKILL after their `grace`
//   q again               |          |
//   one of them again     | kill     | tasks that run are killed at once
//   SIGUSR1, SIGUSR2; p, r|          | nothing more starts; tasks start again
//   SIGTSTP (Ctrl-Z)      |          | tasks are stopped, then this process; SIGCONT continues
//                         |          | both. Timeouts do not count the time in between
//
// Thread safety: none.
#pragma once

#include <cstdint>

#include "pipeline/commands/command_runner.hpp"
#include "pipeline/loop.hpp"
#include "pipeline_progress.hpp"
#include "pipeline_table.hpp"
#include "process/signals.hpp"

namespace tenure::cli {

class PipelineControl {
 public:
  // `table` is null where there is none.
  PipelineControl(pipeline::Loop& loop, pipeline::CommandRunner& runner, Progress& progress,
                  LiveTable* table)
      : loop_(loop), runner_(runner), progress_(progress), table_(table) {}

  // Takes part in the wait of the runner.
  void watch(const process::Signals& signals);
  [[nodiscard]] bool cancelled() const noexcept { return stage_ != Stage::none; }

 private:
  enum class Stage : std::uint8_t { none, finish, end, kill };

  void on_signal(int number);
  void on_key(LiveTable::Request request);
  void cancel(Stage stage);
  void pause(bool paused);
  void suspend();
  void draw();

  pipeline::Loop& loop_;
  pipeline::CommandRunner& runner_;
  Progress& progress_;
  LiveTable* table_;
  Stage stage_ = Stage::none;
};

}  // namespace tenure::cli

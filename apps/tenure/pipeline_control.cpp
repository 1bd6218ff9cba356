#include "pipeline_control.hpp"

#include <algorithm>
#include <csignal>

#include "base/boot_clock.hpp"

namespace tenure::cli {

void PipelineControl::watch(const process::Signals& signals) {
  runner_.watch({.descriptor = [&signals] { return signals.descriptor(); },
                 .ready =
                     [this, &signals] {
                       while (const auto arrived = signals.next()) on_signal(arrived->number);
                     }});
  if (table_ == nullptr) return;
  runner_.watch({.descriptor = [this] { return table_->keys(); },
                 .ready =
                     [this] {
                       for (const LiveTable::Request request : table_->read_keys()) on_key(request);
                       draw();
                     }});
}

void PipelineControl::on_signal(int number) {
  switch (number) {
    case SIGUSR1: pause(true); break;
    case SIGUSR2: pause(false); break;
    case SIGINT:
    case SIGTERM:
    case SIGHUP: cancel(stage_ < Stage::end ? Stage::end : Stage::kill); break;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: suspend(); break;
    case SIGWINCH:
    case SIGCONT: draw(); break;
    default: break;
  }
}

void PipelineControl::on_key(LiveTable::Request request) {
  switch (request) {
    case LiveTable::Request::pause: pause(true); break;
    case LiveTable::Request::resume: pause(false); break;
    case LiveTable::Request::quit:
      cancel(stage_ == Stage::none ? Stage::finish : Stage::end);
      break;
    case LiveTable::Request::none: break;
  }
}

void PipelineControl::pause(bool paused) {
  if (cancelled()) return;
  if (paused) {
    loop_.pause();
    progress_.event("paused", "paused: tasks that run go on, no other starts");
  } else {
    loop_.resume();
    progress_.event("resumed", "resumed");
  }
  if (table_ != nullptr) table_->set_note(paused ? "paused" : "");
  draw();
}

void PipelineControl::cancel(Stage stage) {
  stage_ = std::max(stage_, stage);
  switch (stage_) {
    case Stage::finish:
      progress_.event("finishing", "cancelling: tasks that run finish; q once more to end them");
      loop_.cancel(Running::finish);
      break;
    case Stage::end:
      progress_.event("cancelling", "cancelling: ending what runs; once more to kill it at once");
      loop_.cancel(Running::stop);
      break;
    case Stage::kill:
      progress_.event("killing", "killing what still runs");
      runner_.kill();
      break;
    case Stage::none: break;
  }
  if (table_ != nullptr) table_->set_note("cancelling");
  draw();
}

void PipelineControl::suspend() {
  if (table_ != nullptr) table_->suspend();
  runner_.stop_all();
  const base::BootTime before = base::boot_time();
  ::raise(SIGSTOP);
  runner_.continue_all(base::boot_time() - before);
  draw();
}

void PipelineControl::draw() {
  if (table_ != nullptr) table_->draw(runner_.now());
}

}  // namespace tenure::cli

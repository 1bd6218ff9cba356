#include "pipeline_status.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exit_status.hpp"
#include "pipeline/commands/graph.hpp"
#include "pipeline/commands/run_state.hpp"
#include "pipeline_workspace.hpp"
#include "process/descriptor.hpp"
#include "process/signals.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"
#include "terminal.hpp"
#include "terminal_block.hpp"

namespace tenure::cli {
namespace {

using pipeline::RunInfo;
using pipeline::RunState;
using pipeline::TaskRecord;
using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds status_refresh{1};          // A run may be killed without a word.
constexpr std::chrono::milliseconds status_interval{100};  // Between two looks.

std::string_view text_of(TaskRecord::State state, bool live) {
  switch (state) {
    case TaskRecord::State::started: return live ? "running" : "interrupted";
    case TaskRecord::State::done: return "done";
    case TaskRecord::State::failed: return "failed";
    case TaskRecord::State::skipped: return "skipped";
  }
  return "";
}

struct TaskStatus {
  std::string name;
  std::string state;
  friend bool operator==(const TaskStatus&, const TaskStatus&) = default;
};

struct RunStatus {
  std::string run;
  std::int64_t began = 0;
  std::string state;
  std::vector<TaskStatus> tasks;
  [[nodiscard]] bool live() const { return state == "running"; }
  friend bool operator==(const RunStatus&, const RunStatus&) = default;
};

RunStatus look(const Space& space, const RunState& state) {
  const std::optional<RunInfo> info = state.newest();
  if (!info) throw Error("there was no run of this manifest yet");
  bool live = false;
  for (const TicketInfo& ticket : space.inspect(Path::of(run_lock))) {
    live = live || (ticket.granted && !info->ended);
  }
  RunStatus out{.run = info->id,
                .began = info->began,
                .state = info->ended ? info->result : "interrupted",
                .tasks = {}};
  if (live) out.state = "running";
  const std::map<std::string, TaskRecord> records = state.tasks(info->id);
  for (const auto& [name, text] : info->texts) {
    const auto at = records.find(name);
    out.tasks.push_back(
        {.name = name,
         .state = at == records.end() ? "waiting" : std::string{text_of(at->second.state, live)}});
  }
  return out;
}

std::string json_text(const RunStatus& status) {
  Json tasks = Json::array();
  for (const TaskStatus& task : status.tasks) {
    tasks.push_back({{"task", task.name}, {"state", task.state}});
  }
  const Json all{{"run", status.run},
                 {"began", status.began},
                 {"state", status.state},
                 {"tasks", std::move(tasks)}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> lines_of(const RunStatus& status) {
  std::vector<std::string> lines{fmt::format("run {}: {}", status.run, status.state)};
  for (const TaskStatus& task : status.tasks) {
    lines.push_back(fmt::format("{:<12} {}", task.state, printable(task.name)));
  }
  return lines;
}

void print_status(const RunStatus& status, bool json) {
  if (json) {
    fmt::print("{}\n", json_text(status));
  } else {
    for (const std::string& line : lines_of(status)) fmt::print("{}\n", line);
  }
  (void)std::fflush(stdout);
}

// What fits on the screen: what runs or failed comes first.
void draw(TerminalBlock& block, const RunStatus& status) {
  const ScreenSize size = screen_size(STDOUT_FILENO);
  RunStatus sorted = status;
  const auto place = [](const TaskStatus& task) {
    if (task.state == "running") return 0;
    if (task.state == "failed") return 1;
    return task.state == "waiting" ? 2 : 3;
  };
  std::ranges::sort(sorted.tasks, {}, [&](const TaskStatus& task) {
    return std::pair<int, std::string_view>{place(task), task.name};
  });
  std::vector<std::string> lines = lines_of(sorted);
  if (lines.size() + 1 > size.rows) lines.resize(std::max<std::size_t>(size.rows, 3) - 1);
  for (std::string& line : lines) line = fit(line, std::max<std::size_t>(size.columns, 2) - 1);
  block.show(lines);
}

class StatusWatch {
 public:
  StatusWatch(Store& store, const process::Signals& signals, bool json)
      : store_(store), signals_(signals), json_(json), live_(!json && can_rewrite(STDOUT_FILENO)) {
    if (changed_.get() < 0) process::fail_system("eventfd");
  }

  int run(const Space& space, const RunState& state) {
    std::optional<RunStatus> shown;
    for (;;) {
      arm();
      RunStatus status = look(space, state);
      const bool ended = !status.live();
      if (live_ && !ended) {
        draw(block_, status);
      } else if (shown != status) {
        block_.clear();
        print_status(status, json_);
      }
      shown = std::move(status);
      if (ended) return exit_ok;
      if (const std::optional<int> signal = wait()) {
        block_.leave();
        return *signal == SIGINT ? exit_ok : exit_signal + *signal;
      }
    }
  }

 private:
  void arm() {
    WatchFor all;
    all.ranges.emplace_back();
    all.after = store_.apply({}).revision;
    watch_ = store_.watch(std::move(all), [this] {
      const std::uint64_t one = 1;
      static_cast<void>(::write(changed_.get(), &one, sizeof one));
    });
  }

  // The signal that ends the watch, or nothing: something may have changed.
  std::optional<int> wait() {
    if (std::optional<int> signal = wait_for(-1, status_interval)) return signal;
    const std::optional<int> signal = wait_for(changed_.get(), status_refresh);
    std::uint64_t count = 0;
    static_cast<void>(::read(changed_.get(), &count, sizeof count));
    return signal;
  }

  std::optional<int> wait_for(int change, std::chrono::milliseconds limit) {
    std::array waits{process::readable(signals_.descriptor()), process::readable(change),
                     pollfd{.fd = STDOUT_FILENO, .events = 0, .revents = 0}};
    ::poll(waits.data(), waits.size(), static_cast<int>(limit.count()));
    if ((waits[2].revents & (POLLERR | POLLHUP)) != 0) return SIGPIPE;  // Nobody reads any more.
    while (const auto arrived = signals_.next()) {
      if (process::ends_by_default(arrived->number)) return arrived->number;
      if (arrived->number == SIGTSTP) {
        block_.leave();
        ::raise(SIGSTOP);
      }
    }
    return std::nullopt;
  }

  Store& store_;
  const process::Signals& signals_;
  bool json_;
  bool live_;
  TerminalBlock block_;
  process::Descriptor changed_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<Watch> watch_;  // Last: its notice uses the above.
};

}  // namespace

int show_status(const PipelineCommand& options) {
  const Workspace workspace = workspace_of(options);
  if (!workspace.has_state()) throw Error("there was no run of this manifest yet");
  std::optional<process::Signals> signals;  // Before there are threads.
  if (options.watch) signals = process::Signals::block();
  const std::shared_ptr<Store> store = tenure::store(workspace.url());
  const Space space = tenure::open(store);
  const RunState state{store};
  if (signals) return StatusWatch{*store, *signals, options.json}.run(space, state);
  print_status(look(space, state), options.json);
  return exit_ok;
}

}  // namespace tenure::cli

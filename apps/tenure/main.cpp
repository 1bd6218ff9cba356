// The command line. Each subcommand has its own file; this one finds out which to run.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <exception>
#include <string>

#include "bench.hpp"
#include "cli.hpp"
#include "demo.hpp"
#include "demo_flow.hpp"
#include "demo_processes.hpp"
#include "exit_status.hpp"
#include "flow.hpp"
#include "git.hpp"
#include "list.hpp"
#include "operate.hpp"
#include "pipeline.hpp"
#include "run.hpp"
#include "terminal.hpp"
#include "watch.hpp"

namespace tenure::cli {
namespace {

int print(const std::string& text) {
  fmt::print("{}", text);
  return exit_ok;
}

// One overload per subcommand.
struct Perform {
  Terminal terminal = Terminal::detect();

  int operator()(const PrintOptions& options) const { return print(options.text); }
  int operator()(const RunOptions& options) const { return run(options); }
  int operator()(const GitOptions& options) const { return git(options); }
  int operator()(const EvictOptions& options) const { return evict(options); }
  int operator()(const AskOptions& options) const { return ask(options); }
  int operator()(const LimitOptions& options) const { return limit(options); }
  int operator()(const ShardsOptions& options) const { return shards(options); }
  int operator()(const BenchOptions& options) const { return bench(options); }
  int operator()(const PipelineCommand& options) const { return pipeline(options); }
  int operator()(const ContenderOptions& options) const { return contend(options); }
  int operator()(const DemoWorkerOptions& options) const { return work_on_demo_flow(options); }
  int operator()(const CompletionsOptions& options) const {
    return print(completions(manual(), options.shell));
  }
  int operator()(const ManOptions& /*options*/) const {
    return print(manual_page(manual(), TENURE_VERSION));
  }
  int operator()(const LsOptions& options) const { return ls(options, terminal); }
  int operator()(const TreeOptions& options) const { return tree(options, terminal); }
  int operator()(const ShowOptions& options) const { return show(options, terminal); }
  int operator()(const WatchOptions& options) const { return watch(options, terminal); }
  int operator()(const FlowCommand& options) const { return flow(options, terminal); }
  int operator()(const DoctorOptions& options) const { return doctor(options, terminal); }
  int operator()(const DemoOptions& /*options*/) const { return demo(terminal); }
};

// If a descriptor below 3 is closed, the next file that is opened would get its number, and
// messages would be written into that file. A command that is run finds the descriptor closed as
// before.
void fill_standard_descriptors() {
  for (;;) {
    const int number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (number < 0) return;
    if (number > STDERR_FILENO) {
      ::close(number);
      return;
    }
  }
}

int perform(int argc, const char* const* argv) {
  fill_standard_descriptors();
  // For the width of characters, which are always UTF-8 here. A command that is run has its own
  // locale.
  (void)std::setlocale(LC_CTYPE, "C.UTF-8");  // NOLINT(concurrency-mt-unsafe): no other threads yet
  try {
    return std::visit(Perform{}, parse_arguments(argc, argv));
  } catch (const UsageError& error) {
    fmt::print(stderr, "tenure: {}; see 'tenure {}--help'\n", error.what(),
               error.command.empty() ? "" : error.command + " ");
    return exit_usage;
  }
}

}  // namespace
}  // namespace tenure::cli

int main(int argc, char** argv) {
  try {
    const int status = tenure::cli::perform(argc, argv);
    return std::fflush(stdout) == 0 ? status : tenure::cli::exit_failure;
  } catch (const std::exception& error) {
    std::fputs("tenure: ", stderr);
    std::fputs(tenure::cli::printable(error.what()).c_str(), stderr);
    std::fputs("\n", stderr);
    return tenure::cli::exit_failure;
  }
}

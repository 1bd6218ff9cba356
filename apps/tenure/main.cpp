// The command line. One file a subcommand; this one finds out which.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "demo.hpp"
#include "terminal.hpp"

namespace {

constexpr int exit_usage = 2;
constexpr int exit_failure = 1;

// One line: what is wrong, and where to look.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    if (rest.front().starts_with('-')) return "unknown option " + rest.front();
    return (app.get_subcommands().empty() ? "unknown command " : "unexpected argument ") +
           rest.front();
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return "no command given";
  return error.what();
}

int run(int argc, const char* const* argv) {
  CLI::App app{"Tenure: who holds what, for how long, and who is next.", "tenure"};
  app.set_version_flag("--version", "tenure " TENURE_VERSION);
  app.require_subcommand(1);
  app.add_subcommand("demo", "Show what a lock space does, live, in a few seconds");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "tenure: {}; see 'tenure --help'\n", explain(app, error));
    return exit_usage;
  }
  return tenure::cli::demo(tenure::cli::Terminal::detect());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs("tenure: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return exit_failure;
  }
}

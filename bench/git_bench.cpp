// Changes per second of one branch of a bare repository on this machine: transactions, alone and
// from eight processes with and without the lock. The rival is the loop that scripts have: pull,
// commit, push, and again from the pull when the push is rejected.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "tenure/git.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t crowd_size = 8;

// NOLINTBEGIN(concurrency-mt-unsafe): before there are threads.
void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

// git without the configuration of the person who measures.
void set_environment(const fs::path& directory) {
  set_variable("HOME", directory);
  set_variable("XDG_CACHE_HOME", directory / "cache");
  set_variable("GIT_CONFIG_GLOBAL", directory / "gitconfig");
  set_variable("GIT_CONFIG_NOSYSTEM", "1");
  for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) ::unsetenv(name);
  std::ofstream{directory / "gitconfig"} << "[user]\n\tname = Bench\n\temail = bench@example.org\n"
                                            "[init]\n\tdefaultBranch = main\n";
}
// NOLINTEND(concurrency-mt-unsafe)

// A remote with a few files, and a clone of it per writer.
class Remote {
 public:
  Remote(const fs::path& directory, const std::string& name) : path_(directory / (name + ".git")) {
    kit::run({"git", "init", "-q", "--bare", path_});
    for (std::size_t i = 0; i < crowd_size; ++i) {
      clones_.push_back(directory / (name + std::to_string(i)));
      kit::run({"git", "clone", "-q", path_, clones_.back()});
      if (i == 0) push_first(clones_.back());
    }
  }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }
  [[nodiscard]] const fs::path& clone(std::size_t writer) const { return clones_.at(writer); }
  [[nodiscard]] std::size_t commits() const {
    return std::stoul(kit::run({"git", "-C", path_, "rev-list", "--count", "main"}));
  }

 private:
  static void push_first(const fs::path& clone) {
    for (int i = 0; i < 100; ++i) std::ofstream{clone / ("file" + std::to_string(i))} << i << '\n';
    kit::run({"git", "-C", clone, "add", "-A"});
    kit::run({"git", "-C", clone, "commit", "-q", "-m", "start"});
    kit::run({"git", "-C", clone, "push", "-q", "origin", "main"});
  }

  fs::path path_;
  std::vector<fs::path> clones_;
};

std::string shell_loop(std::size_t count) {
  return "set -e; i=0; while [ $i -lt " + std::to_string(count) +
         " ]; do i=$((i+1)); git pull -q --rebase; date +%N >>own$0; git add -A; "
         "git commit -q -m change; "
         "until git push -q 2>/dev/null; do git pull -q --rebase; done; done";
}

kit::Program shell(const Remote& remote, std::size_t writer, std::size_t count) {
  return {.words = {"sh", "-c", "cd \"$1\"; " + shell_loop(count), std::to_string(writer),
                    remote.clone(writer)}};
}

void change(git::Repository& store, std::size_t writer) {
  store.transaction([writer](git::Transaction& transaction) {
    std::ofstream{transaction.directory() / ("own" + std::to_string(writer)), std::ios::app}
        << std::chrono::steady_clock::now().time_since_epoch().count() << '\n';
  });
}

double since(std::chrono::steady_clock::time_point start, std::size_t operations) {
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(operations);
}

void require_zero(int status) {
  if (status != 0) throw std::runtime_error("a writer failed");
}

// Nanoseconds per change of eight processes that begin at once.
double crowd(const Remote& remote, const std::string& url, std::size_t count) {
  const kit::Shared<kit::Signal> begin;
  std::vector<kit::Process> writers;
  for (std::size_t writer = 0; writer < crowd_size; ++writer) {
    writers.emplace_back([&, writer](const kit::Line& line) {
      const Space space = open(url);
      git::Options options;
      options.max_attempts = 10'000;
      git::Repository store{remote.path(), "main", {}, space, options};
      change(store, writer);
      line.say("ready");
      begin->wait_at_least(1);
      for (std::size_t i = 0; i < count; ++i) change(store, writer);
    });
  }
  for (const kit::Process& writer : writers) (void)writer.hear();
  const auto start = std::chrono::steady_clock::now();
  begin->set(1);
  for (kit::Process& writer : writers) require_zero(writer.exit_status());
  return since(start, crowd_size * count);
}

double shell_crowd(const Remote& remote, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<kit::Process> writers;
  for (std::size_t writer = 0; writer < crowd_size; ++writer) {
    writers.emplace_back(shell(remote, writer, count));
  }
  for (kit::Process& writer : writers) require_zero(writer.exit_status());
  return since(start, crowd_size * count);
}

Samples per_second(const Samples& nanoseconds) {
  Samples out;
  for (const double one : nanoseconds) out.push_back(1e9 / one);
  return out;
}

void ask_alone(Report& report) {
  const kit::TemporaryDirectory directory;
  set_environment(directory.path());
  const Remote ours{directory.path(), "ours"};
  const Remote theirs{directory.path(), "theirs"};
  const Space space = open("sqlite:" + (directory / "space.db").string());
  git::Repository store{ours.path(), "main", {}, space};
  change(store, 0);
  const std::size_t count = report.effort().of(10, 2);
  Race race{report.effort()};
  const auto transactions = race.add_round([&] {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) change(store, 0);
    return since(start, count);
  });
  const auto loop = race.add_round([&] {
    const auto start = std::chrono::steady_clock::now();
    require_zero(kit::Process{shell(theirs, 0, count)}.exit_status());
    return since(start, count);
  });
  race.run(report.effort().of(15, 1));
  report.compare("transactions of one process", {"", per_second(race[transactions]), "/s"},
                 {"git pull --rebase && git push", per_second(race[loop]), "/s"}, at_least(2));
}

void ask_crowd(Report& report) {
  const kit::TemporaryDirectory directory;
  set_environment(directory.path());
  const Remote locked{directory.path(), "locked"};
  const Remote free{directory.path(), "free"};
  const Remote theirs{directory.path(), "theirs"};
  const std::string url = "sqlite:" + (directory / "space.db").string();
  const std::size_t count = report.effort().of(5, 1);
  const std::size_t rounds = report.effort().of(5, 1);
  Race race{report.effort()};
  const auto with_lock = race.add_round([&] { return crowd(locked, url, count); });
  const auto retries = race.add_round([&] { return crowd(free, "local:", count); });
  const auto loops = race.add_round([&] { return shell_crowd(theirs, count); });
  race.run(rounds);
  const Samples rival = per_second(race[loops]);
  report.compare("8 processes, under the lock", {"", per_second(race[with_lock]), "/s"},
                 {"8 shell loops", rival, "/s"}, at_least(4));
  report.compare("8 processes, retries only", {"", per_second(race[retries]), "/s"},
                 {"8 shell loops", rival, "/s"});
  // A rate of changes that were lost would be worth nothing.
  const std::size_t made = race[with_lock].size() * crowd_size;
  if (locked.commits() != 1 + (made * (count + 1)) || theirs.commits() != 1 + (made * count)) {
    throw std::runtime_error("changes were lost");
  }
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  using namespace tenure::bench;
  static constexpr std::array questions = {
      Question{.name = "git_alone",
               .text = "changes per second of one writer; what does a transaction cost?",
               .ask = &ask_alone,
               .threads = Threads::never},
      Question{.name = "git_crowd",
               .text = "changes per second of eight writers; what is the lock worth?",
               .ask = &ask_crowd,
               .threads = Threads::never},
  };
  return run_program(argc, argv, questions);
}

// The stress run: many processes on one `sqlite:` space, some of them killed and stopped at random,
// and a verdict on their logs.
//
//   stress [--seconds N] [--workers N] [--seed N] [--runs N] [--keep 1]
//   stress --check DIRECTORY      the verdict on a run that was kept
//
// The seed determines the requests and the faults, not their interleaving: a failing seed may need
// a few runs to fail again. Logs and database of a failed run are kept (with --keep, of every run),
// and their location is printed.
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tenure/error.hpp"
#include "tests/stress/aftermath.hpp"
#include "tests/stress/checker.hpp"
#include "tests/stress/fleet.hpp"
#include "tests/stress/progress.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t second_ns = 1'000'000'000;
// For so long nobody is granted anything, or a process does not end.
constexpr auto stuck_time = 20s;
constexpr std::int64_t stuck_ns = std::chrono::nanoseconds{stuck_time}.count();
constexpr std::size_t most_printed = 10;

struct Options {
  std::int64_t seconds = 30;
  std::size_t workers = 16;
  std::uint64_t seed = std::random_device{}();
  unsigned runs = 1;
  bool keep = false;
  std::string check;
};

class Run {
 public:
  Run(const Options& options, const std::string& program, const std::string& directory)
      : random_(options.seed),
        database_(directory + "/space.db"),
        progress_(directory + "/progress"),
        fleet_(program, directory, options.workers),
        last_(options.workers),
        seen_(options.workers, boot_ns()),
        go_on_at_(options.workers) {}

  // What went wrong; empty: nothing.
  std::string drive(std::int64_t seconds) {
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) start(slot);
    const std::int64_t end = boot_ns() + (seconds * second_ns);
    const std::int64_t restart_every = std::min(7 * second_ns, seconds * second_ns / 2);
    std::int64_t restart_at = boot_ns() + restart_every;
    while (boot_ns() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1 + below(random_, 20)});
      if (std::string fault = look(); !fault.empty()) return fault;
      let_go_on(boot_ns());
      if (boot_ns() >= restart_at) {
        restart_all();
        restart_at += restart_every;
      } else {
        strike();
      }
    }
    return finish();
  }
  [[nodiscard]] std::int64_t worst_gap() const { return worst_gap_; }

 private:
  void start(std::size_t slot) {
    const std::string threads = std::to_string(2 + below(random_, 2));
    fleet_.start(slot, {threads, std::to_string(random_())});
    seen_[slot] = boot_ns();
    go_on_at_[slot] = 0;
  }

  // Some processes are killed while they are stopped, whatever they hold. Slots 0 to 3 live until
  // all are restarted, so that there are long lives too.
  void strike() {
    const std::size_t slot = below(random_, fleet_.size());
    if (slot >= 4 && one_in(random_, 10)) {
      fleet_.kill(slot);
      start(slot);
    } else if (!fleet_.stopped(slot) && one_in(random_, 12)) {
      fleet_.stop(slot);
      const std::uint64_t most = one_in(random_, 4) ? 300'000'000 : 30'000'000;
      go_on_at_[slot] = boot_ns() + static_cast<std::int64_t>(below(random_, most));
    }
  }

  void let_go_on(std::int64_t now) {
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) {
      if (!fleet_.stopped(slot) || go_on_at_[slot] > now) continue;
      fleet_.go_on(slot);
      seen_[slot] = now;
    }
  }

  void restart_all() {
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) fleet_.kill(slot);
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) start(slot);
  }

  // Updates the progress of each process; returns whether all are fine.
  std::string look() {
    if (std::string fault = fleet_.reap(); !fault.empty()) return fault;
    const std::int64_t now = boot_ns();
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) {
      const std::uint64_t grants = progress_.grants(slot).load();
      if (grants != last_[slot] || !fleet_.running(slot)) {
        if (grants != last_[slot]) latest_ = now;
        last_[slot] = grants;
        seen_[slot] = now;
      } else if (!fleet_.stopped(slot)) {
        worst_gap_ = std::max(worst_gap_, now - seen_[slot]);
      }
    }
    if (now - latest_ < stuck_ns) return {};
    return "nobody was granted anything for 20 s; in the space:\n" + describe(database_);
  }

  std::string finish() {
    let_go_on(std::numeric_limits<std::int64_t>::max());
    return fleet_.end_all(stuck_time,
                          [this](std::size_t) { return "in the space:\n" + describe(database_); });
  }

  Random random_;
  const std::string database_;
  Progress progress_;
  Fleet fleet_;
  std::vector<std::uint64_t> last_;     // Grants of each slot at the last check,
  std::vector<std::int64_t> seen_;      // and when that last changed.
  std::vector<std::int64_t> go_on_at_;  // For processes that are stopped.
  std::int64_t latest_ = boot_ns();
  std::int64_t worst_gap_ = 0;
};

bool judge(const std::string& directory) {
  const History history = read_history(directory);
  std::fputs(text(figures(history)).c_str(), stdout);
  const std::vector<Finding> findings = check(history);
  for (std::size_t i = 0; i < findings.size() && i < most_printed; ++i) {
    std::printf("VIOLATION (%s): %s\n", name(findings[i].kind).c_str(), findings[i].text.c_str());
  }
  if (findings.size() > most_printed) std::printf("… %zu in all\n", findings.size());
  return findings.empty();
}

bool run_once(const Options& options, const std::string& program) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "tenure-stress-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) throw Error("no temporary directory");
  std::printf("stress --seconds %lld --workers %zu --seed %llu\n",
              static_cast<long long>(options.seconds), options.workers,
              static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  std::string fault;
  {
    Run run{options, program, directory};
    fault = run.drive(options.seconds);
    std::printf("longest time without a grant of a running worker: %lld ms\n",
                static_cast<long long>(run.worst_gap() / 1'000'000));
  }
  bool good = fault.empty();
  if (!good) std::printf("FAILED: %s\n", fault.c_str());
  if (good) {
    for (const std::string& wrong : look_at_remains(directory + "/space.db")) {
      std::printf("LEFT: %s\n", wrong.c_str());
      good = false;
    }
  }
  good = judge(directory) && good;
  if (!good) std::printf("seed %llu failed\n", static_cast<unsigned long long>(options.seed));
  if (good && !options.keep) {
    std::filesystem::remove_all(directory);
  } else {
    std::printf("logs and database are in %s\n", directory.c_str());
  }
  std::fflush(stdout);
  return good;
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 1; i < words.size(); i += 2) {
    if (i + 1 == words.size()) throw Error(words[i] + " needs a value");
    const std::string& value = words[i + 1];
    if (words[i] == "--seconds") {
      options.seconds = std::stoll(value);
    } else if (words[i] == "--workers") {
      options.workers = std::stoul(value);
    } else if (words[i] == "--seed") {
      options.seed = std::stoull(value);
    } else if (words[i] == "--runs") {
      options.runs = static_cast<unsigned>(std::stoul(value));
    } else if (words[i] == "--keep") {
      options.keep = value != "0";
    } else if (words[i] == "--check") {
      options.check = value;
    } else {
      throw Error("no option: " + words[i]);
    }
  }
  if (options.workers < 1 || options.workers > max_workers) throw Error("1 to 64 workers");
  return options;
}

int run(const std::vector<std::string>& words) {
  Options options = parse(words);
  if (!options.check.empty()) return judge(options.check) ? 0 : 1;
  unsigned failed = 0;
  for (unsigned i = 0; i < options.runs; ++i, ++options.seed) {
    if (!run_once(options, program_beside("stress_worker"))) ++failed;
  }
  if (failed != 0) std::printf("%u of %u runs failed\n", failed, options.runs);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tenure::stress

int main(int count, char** words) {
  try {
    return tenure::stress::run({words, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stress: %s\n", error.what());
    return 2;
  }
}

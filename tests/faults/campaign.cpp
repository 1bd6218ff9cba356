#include "tests/faults/campaign.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.

#include "tenure/error.hpp"
#include "tests/stress/progress.hpp"

namespace tenure::faults {
namespace {

using namespace std::chrono_literals;
using stress::below;
using stress::boot_ns;

constexpr std::int64_t ms_ns = 1'000'000;
constexpr auto stuck_time = 90s;  // A lease or a lost connection takes far less.
constexpr std::int64_t stuck_ns = std::chrono::nanoseconds{stuck_time}.count();
constexpr std::int64_t longest_calm = 1'000 * ms_ns;
constexpr std::uint64_t grants_between = 20;
constexpr std::size_t most_told = 10;
constexpr auto glance = 2ms;

std::string new_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "tenure-faults-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error("no temporary directory");
  return name;
}

class Run {
 public:
  Run(const Campaign& campaign, const std::string& directory)
      : campaign_(campaign),
        directory_(directory),
        random_(campaign.seed),
        progress_(directory + "/progress"),
        fleet_(stress::program_beside("faults_worker"), directory, campaign.urls.size(),
               campaign.enter),
        faults_(campaign.faults) {
    faults_.push_back({.name = "stop", .strike = [this](auto&) { return stop_one(); }});
    faults_.push_back({.name = "kill", .strike = [this](auto&) { return kill_one(); }});
  }

  // What went wrong; empty: nothing.
  std::string drive() {
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) start(slot);
    std::string wrong = until_all_got_something();
    const std::int64_t end = boot_ns() + (campaign_.time.count() * ms_ns);
    while (wrong.empty() && boot_ns() < end) {
      let_them_work();
      wrong = fleet_.reap();
      undo(boot_ns());
      strike();
    }
    undo(std::numeric_limits<std::int64_t>::max());
    if (wrong.empty()) wrong = until_all_got_something();
    if (wrong.empty()) wrong = end_all();
    if (!wrong.empty()) return wrong;
    fleet_.start(0, arguments("last", 0));
    return end_all();
  }
  [[nodiscard]] const std::map<std::string, std::size_t>& struck() const { return struck_; }

 private:
  struct Later {
    std::int64_t at = 0;
    bool alone = false;
    Undo undo;
  };

  void start(std::size_t slot) { fleet_.start(slot, arguments(std::to_string(random_()), slot)); }
  [[nodiscard]] std::vector<std::string> arguments(std::string seed, std::size_t slot) const {
    return {std::move(seed), std::to_string(campaign_.lease.count()), campaign_.urls[slot], "guard",
            "0"};
  }

  Undo stop_one() {
    const std::size_t slot = below(random_, fleet_.size());
    if (fleet_.stopped(slot)) return {};
    fleet_.stop(slot);
    return [this, slot] { fleet_.go_on(slot); };
  }

  Undo kill_one() {
    const std::size_t slot = below(random_, fleet_.size());
    fleet_.kill(slot);
    start(slot);
    return {};
  }

  void strike() {
    const bool one_is_alone = std::ranges::any_of(later_, &Later::alone);
    if (deck_.empty()) {
      for (const Fault& fault : faults_) deck_.push_back(&fault);
      std::ranges::shuffle(deck_, random_);
    }
    const auto next = std::ranges::find_if(
        deck_, [&](const Fault* fault) { return !(fault->alone && one_is_alone); });
    if (next == deck_.end()) return;
    const Fault& fault = **next;
    deck_.erase(next);
    fleet_.note("fault", fault.name);
    ++struck_[fault.name];
    if (Undo undo = fault.strike(random_)) {
      const auto most = static_cast<std::uint64_t>(2 * campaign_.lease.count() * ms_ns);
      later_.push_back({.at = boot_ns() + static_cast<std::int64_t>(below(random_, most)),
                        .alone = fault.alone,
                        .undo = std::move(undo)});
    }
  }

  void undo(std::int64_t now) {
    for (const Later& one : later_) {
      if (one.at <= now) one.undo();
    }
    std::erase_if(later_, [now](const Later& one) { return one.at <= now; });
  }

  [[nodiscard]] std::uint64_t grants() const {
    std::uint64_t sum = 0;
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) sum += progress_.grants(slot).load();
    return sum;
  }

  // Or after a while: the fault may be the reason why nobody makes progress.
  void let_them_work() {
    const std::uint64_t enough = grants() + 1 + below(random_, grants_between);
    const std::int64_t until = boot_ns() + longest_calm;
    while (grants() < enough && boot_ns() < until) std::this_thread::sleep_for(glance);
  }

  [[nodiscard]] std::string until_all_got_something() {
    const std::int64_t since = boot_ns();
    for (std::size_t slot = 0; slot < fleet_.size(); ++slot) {
      const std::uint64_t before = progress_.grants(slot).load();
      while (progress_.grants(slot).load() == before) {
        if (std::string fault = fleet_.reap(); !fault.empty()) return fault;
        if (boot_ns() - since > stuck_ns) {
          return fleet_.name(slot) + " gets nothing any more; " + last_words(slot);
        }
        std::this_thread::sleep_for(glance);
      }
    }
    return {};
  }

  // The last line that the worker logged about itself.
  [[nodiscard]] std::string last_words(std::size_t slot) const {
    std::ifstream life{directory_ + '/' + fleet_.name(slot) + ".life"};
    std::deque<std::string> last;
    for (std::string line; std::getline(life, line);) {
      last.push_back(line);
      if (last.size() > most_told) last.pop_front();
    }
    std::string text = "now it is " + std::to_string(boot_ns());
    for (const std::string& line : last) text += "\n  " + line;
    return text;
  }

  [[nodiscard]] std::string end_all() {
    return fleet_.end_all(stuck_time, [this](std::size_t slot) { return last_words(slot); });
  }

  const Campaign& campaign_;
  const std::string directory_;
  stress::Random random_;
  stress::Progress progress_;
  stress::Fleet fleet_;
  std::vector<Fault> faults_;
  std::vector<const Fault*> deck_;  // Faults that are still to come before any is repeated.
  std::vector<Later> later_;
  std::map<std::string, std::size_t> struck_;
};

void judge(const std::string& directory, Report& report) {
  const stress::History history = stress::read_history(directory);
  const std::vector<stress::Finding> findings = stress::check(history);
  for (std::size_t i = 0; i < findings.size() && i < most_told; ++i) {
    report.wrong += name(findings[i].kind) + ": " + findings[i].text + '\n';
  }
  report.violations = findings.size();
  report.figures = stress::figures(history);
  for (const stress::Asked& one : history.requests) {
    if (one.granted && history.certain_end(one) > *one.granted) ++report.proved;
  }
  if (report.proved <= report.struck()) {
    report.wrong += "too little is certain for anything to be found\n";
  }
}

std::size_t some_of(const std::vector<std::unique_ptr<Proxy>>& networks, stress::Random& random) {
  return below(random, networks.size());
}

}  // namespace

std::size_t Report::struck() const {
  std::size_t sum = 0;
  for (const auto& [name, count] : faults) sum += count;
  return sum;
}

std::string Report::text() const {
  std::string out = std::to_string(figures.requests) + " operations, " +
                    std::to_string(figures.grants) + " grants (" + std::to_string(proved) +
                    " proved), " + std::to_string(struck()) + " faults, " +
                    std::to_string(violations) + " violations;";
  for (const auto& [name, count] : faults) out += ' ' + name + ' ' + std::to_string(count);
  return out + '\n' + stress::text(figures);
}

Report run(const Campaign& campaign) {
  const std::string directory = new_directory();
  Report report;
  {
    Run run{campaign, directory};
    if (const std::string wrong = run.drive(); !wrong.empty()) report.wrong = wrong + '\n';
    report.faults = run.struck();
  }
  judge(directory, report);
  if (report.wrong.empty()) {
    std::filesystem::remove_all(directory);
  } else {
    report.wrong += "logs are in " + directory + '\n';
  }
  return report;
}

std::vector<Fault> network_faults(const std::vector<std::unique_ptr<Proxy>>& networks) {
  using Random = stress::Random;
  const auto pick = [&networks](Random& random) -> Proxy& {
    return *networks[some_of(networks, random)];
  };
  const auto cut_off = [pick](Proxy::Door door) {
    return [pick, door](Random& random) -> Undo {
      Proxy& network = pick(random);
      network.door(door);
      network.cut();
      return [&network] { network.door(Proxy::Door::open); };
    };
  };
  const auto swallow = [pick](Proxy::Way way) {
    return [pick, way](Random& random) -> Undo {
      pick(random).swallow(way);
      return {};
    };
  };
  return {{.name = "cut",
           .strike = [pick](Random& random) -> Undo {
             pick(random).cut();
             return {};
           }},
          {.name = "no-answers", .strike = swallow(Proxy::Way::to_client)},
          {.name = "no-questions", .strike = swallow(Proxy::Way::to_server)},
          {.name = "slow",
           .strike = [pick](Random& random) -> Undo {
             Proxy& network = pick(random);
             network.delay(std::chrono::milliseconds{1 + below(random, 50)});
             return [&network] { network.delay(0ms); };
           }},
          {.name = "cut-off", .strike = cut_off(Proxy::Door::shut)},
          {.name = "silence", .strike = cut_off(Proxy::Door::silent)}};
}

}  // namespace tenure::faults

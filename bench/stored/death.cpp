// Compared, without a bar, with flock(2), which shows how long the kernel takes to end a process of
// that size.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/locks.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20U;
constexpr std::chrono::milliseconds time_to_block{3};  // The waiter is in its queue, and asleep.

struct Size {
  std::string_view name;
  std::size_t bytes;
  std::size_t rounds;
};
constexpr std::array sizes = {
    Size{.name = "small holder", .bytes = 0, .rounds = 200},
    Size{.name = "256 MB", .bytes = 256 * megabyte, .rounds = 20},
    Size{.name = "1 GB", .bytes = 1024 * megabyte, .rounds = 5},
};

// Acquires the lock at each command, and answers with the time of the grant.
Child waiter_of(Kind kind, const Meeting& meeting, std::size_t core) {
  return {core, [=](const Line& line) {
            const std::unique_ptr<Lock> lock = make_lock(kind, meeting, 0);
            line.send({});
            while (line.next()) {
              lock->acquire();
              const double granted = now();
              lock->release();
              line.send({granted});
            }
          }};
}

Child holder_of(Kind kind, const Meeting& meeting, std::size_t core, std::size_t bytes) {
  return {core, [=](const Line& line) {
            const std::vector<char> ballast(bytes, 'x');  // Touched, so it is resident.
            const std::unique_ptr<Lock> lock = make_lock(kind, meeting, 0);
            lock->acquire();
            line.send({static_cast<double>(ballast.size())});
            (void)line.next();  // Until killed.
          }};
}

// One kind of lock: a process that waits for it, round after round, and one that is killed while it
// holds it.
class Arena {
 public:
  Arena(Kind kind, const Placement& placement, std::size_t bytes)
      : kind_(kind),
        bytes_(bytes),
        placement_(placement),
        waiter_(waiter_of(kind, meeting_, placement.core_of(1))) {
    waiter_.hear();
  }

  // Milliseconds from the signal to the grant.
  double round() {
    Child holder = holder_of(kind_, meeting_, placement_.core_of(0), bytes_);
    holder.hear();
    waiter_.tell({});
    std::this_thread::sleep_for(time_to_block);
    const double killed = now();
    holder.kill();
    const double granted = waiter_.hear().at(0);
    if (granted < killed) throw std::runtime_error("granted while another process held it");
    return (granted - killed) / 1e6;
  }

 private:
  Kind kind_;
  std::size_t bytes_;
  const Placement& placement_;
  Meeting meeting_{.file = scratch_path("death")};
  Child waiter_;
};

double quantile(Samples samples, double part) {
  std::ranges::sort(samples);
  const auto place =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(samples.size())));
  return samples[std::max<std::size_t>(place, 1) - 1];
}

bool has_room_for(std::size_t bytes) {
  std::ifstream facts{"/proc/meminfo"};
  for (std::string word; facts >> word;) {
    std::size_t kilobytes = 0;
    if (word == "MemAvailable:" && facts >> kilobytes) return kilobytes > 2 * (bytes / 1024);
  }
  return false;
}

void ask_size(Report& report, const Placement& placement, const Size& size) {
  const std::string what = placement.line(size.name);
  const std::size_t rounds = report.effort().of(size.rounds, 3);
  if (!has_room_for(size.bytes)) return report.note(what + ": not measured, too little memory");
  Arena ours_arena{Kind::ours, placement, size.bytes};
  Arena flock_arena{Kind::flock, placement, size.bytes};
  Samples ours;
  Samples theirs;
  for (std::size_t round = 0; round < rounds; ++round) {
    ours.push_back(ours_arena.round());
    theirs.push_back(flock_arena.round());
  }
  const std::string_view name = "flock(2)";
  report.compare(what + ", p50", {"", {quantile(ours, 0.5)}, "ms"},
                 {name, {quantile(theirs, 0.5)}, "ms"});
  if (size.bytes == 0) {
    report.figure(what + ", p99", quantile(ours, 0.99), "ms", at_most(10));
    report.figure(placement.line("p99 of flock(2)"), quantile(theirs, 0.99), "ms");
  } else {
    report.compare(what + ", worst", {"", {quantile(ours, 1)}, "ms"},
                   {name, {quantile(theirs, 1)}, "ms"});
  }
}

}  // namespace

void ask_death(Report& report) {
  for (const Placement& placement : possible_placements(report)) {
    for (const Size& size : sizes) {
      if (size.bytes == 0 || !report.effort().brief) ask_size(report, placement, size);
    }
  }
}

}  // namespace tenure::bench::stored

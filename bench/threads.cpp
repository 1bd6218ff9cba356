// Rival: two threads with one std::mutex each, which share nothing. Their gain over one thread is
// what the machine offers at this moment: its cores may be two halves of one.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "space/local/shard.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/path.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t batch = 512;  // Between clock readings.

// The job of one thread, in memory that is not adjacent to another thread's.
struct alignas(256) Job {
  Claim claim;
  std::mutex mutex;
};
using Jobs = std::array<std::unique_ptr<Job>, 2>;
using Step = std::function<void(Job&)>;  // A batch.

Jobs jobs(const Claim& first, const Claim& second) {
  Jobs made{std::make_unique<Job>(), std::make_unique<Job>()};
  made[0]->claim = first;
  made[1]->claim = second;
  return made;
}

// Operations per nanosecond.
double rate(const Step& step, Job& job, std::chrono::nanoseconds time) {
  std::uint64_t operations = 0;
  const auto start = Clock::now();
  auto now = start;
  for (; now - start < time; now = Clock::now()) {
    step(job);
    operations += batch;
  }
  return static_cast<double>(operations) / static_cast<double>((now - start).count());
}

// Nanoseconds per operation of all threads together. Each thread has its own core.
double together(std::span<const std::unique_ptr<Job>> all, const Step& step,
                std::chrono::nanoseconds time) {
  std::atomic<std::size_t> missing = all.size();
  std::vector<double> rates(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      pin_to_core(i);
      step(*all[i]);  // Warm-up.
      --missing;
      while (missing.load() != 0) {
      }
      rates[i] = rate(step, *all[i], time);
    });
  }
  double sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads[i].join();
    sum += rates[i];
  }
  return 1 / sum;
}

std::string place_of(const Claim& claim) {
  return claim.path.text() + " in shard " + std::to_string(local::shard_of(claim.path.route()));
}

// One thread, then two, on the same jobs.
class Pair {
 public:
  Pair(Race& race, const Jobs& all, const Step& step, std::chrono::nanoseconds time)
      : race_(race),
        one_(race.add_round(
            [&all, step, time] { return together(std::span{all}.first(1), step, time); })),
        two_(race.add_round([&all, step, time] { return together(all, step, time); })) {}

  [[nodiscard]] Samples gain() const { return race_[one_] / race_[two_]; }

 private:
  Race& race_;
  std::size_t one_;
  std::size_t two_;
};

}  // namespace

void ask_threads(Report& report) {
  if (cores() < 2) return report.note("not measured: one core only");
  const std::chrono::microseconds time{report.effort().of(10'000, 200)};
  const Space space = open("local:");
  const Space flat_space = open("local:");
  const Jobs books = jobs(book(1), book(2));
  const Jobs names = jobs(book.exclusive(), film.exclusive());
  const Jobs mutexes = jobs({}, {});
  report.note(place_of(books[0]->claim) + ", " + place_of(books[1]->claim) + "; " +
              place_of(names[0]->claim) + ", " + place_of(names[1]->claim));

  const auto lock_in = [](const Space& where) {
    return [&where](Job& job) {
      for (std::uint64_t i = 0; i < batch; ++i) const Hold hold = where.lock(job.claim);
    };
  };
  const Step lock_mutex = [](Job& job) {
    for (std::uint64_t i = 0; i < batch; ++i) const std::scoped_lock lock{job.mutex};
  };
  Race race{report.effort()};
  const Pair of_books{race, books, lock_in(space), time};
  const Pair of_names{race, names, lock_in(flat_space), time};
  const Pair of_mutexes{race, mutexes, lock_mutex, time};
  race.run(150);

  const Samples control = of_mutexes.gain();
  const Report::Side rival{.name = "private mutexes", .samples = control, .unit = "times"};
  report.compare("two threads, book(1) and book(2)", {"", of_books.gain(), "times"}, rival,
                 at_least(0.85));
  report.compare("two threads, book and film", {"", of_names.gain(), "times"}, rival,
                 at_least(0.85));
}

}  // namespace tenure::bench

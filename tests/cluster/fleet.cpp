#include "tests/cluster/fleet.hpp"

#include <chrono>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "tenure/tenure.hpp"
#include "tests/museum/clock.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::cluster {
namespace {

using namespace std::chrono_literals;
using stress::below;
using stress::Event;
using stress::one_in;

constexpr std::chrono::milliseconds lease = 3s;
constexpr unsigned threads = 2;
constexpr std::uint64_t as_told = 1;  // A max_hold: certain is what an `until` says.
constexpr auto between_looks = 1ms;

// A few paths, one below another, so that nearly all conflict.
Claim some_claim(stress::Random& random) {
  const Path path = one_in(random, 8)   ? Path::of("a")
                    : one_in(random, 2) ? Path::of("a") / Path::of("0")
                                        : Path::of("a") / Path::of("1");
  switch (below(random, 4)) {
    case 0: return path.shared();
    case 1: return path.group("permits", 2);
    default: return path.exclusive();
  }
}

// One thread of a worker, in a space of its own.
class Hand {
 public:
  struct Place {
    std::shared_ptr<Store> store;
    const stress::Log& log;
    std::atomic<std::uint64_t>& grants;
  };
  Hand(Place place, unsigned thread, std::uint64_t seed)
      : place_(std::move(place)), thread_(thread), random_(seed) {}

  void round() {
    if (!space_ && !reopen()) return;
    ++request_;
    const Claim claim = some_claim(random_);
    const bool patient = one_in(random_, 2);
    write(Event::Kind::asked, 0, patient ? "lock" : "try_lock_for", {claim}, as_told);
    std::optional<Hold> hold = get(claim, patient);
    if (!hold) return;
    write(Event::Kind::granted, hold->token().value);
    place_.grants.fetch_add(1);
    keep(*hold);
    give_back(*std::move(hold));
  }

 private:
  bool reopen() {
    try {
      space_.emplace(open(place_.store, {.label = "worker", .ttl = lease}));
      return true;
    } catch (const StoreError&) {
      return false;
    }
  }

  std::optional<Hold> get(const Claim& claim, bool patient) {
    std::string why = "gave-up";
    try {
      if (patient) return space_->lock(claim);
      if (auto hold = space_->try_lock_for(claim, 50ms)) return hold;
    } catch (const SessionLost&) {
      why = "session-lost";
    } catch (const StoreError&) {
      why = "store";
    } catch (const Evicted&) {
      why = "session-lost";  // Its ticket was swept away, and it learned that first.
    }
    write(Event::Kind::refused, 0, why);
    if (why == "session-lost") space_.reset();
    return std::nullopt;
  }

  // The clock first: that was before lost() was found silent. Now and then longer than a lease.
  void keep(const Hold& hold) {
    const auto time =
        one_in(random_, 150) ? lease + 1s : std::chrono::milliseconds{below(random_, 9)};
    const std::int64_t end = stress::boot_ns() + std::chrono::nanoseconds{time}.count();
    for (;;) {
      const std::int64_t now = stress::boot_ns();
      if (hold.lost().stop_requested()) return write(Event::Kind::lost);
      write(Event::Kind::until, static_cast<std::uint64_t>(now));
      if (now >= end) return;
      std::this_thread::sleep_for(between_looks);  // The load, and no waiting for anything.
    }
  }

  void give_back(Hold hold) {
    const bool drops = one_in(random_, 3);
    write(Event::Kind::leaving, 0, drops ? "drop" : "release");
    bool was_held = true;
    try {
      if (drops) {
        const Hold dropped = std::move(hold);
      } else {
        was_held = hold.release();
      }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // It is given back as soon as it can be.
    }
    write(Event::Kind::left, was_held ? 1 : 0);
    if (!was_held) space_.reset();
  }

  void write(Event::Kind kind, std::uint64_t a = 0, std::string word = {},
             std::vector<Claim> claims = {}, std::uint64_t b = 0) const {
    place_.log.write(line(Event{.time = stress::boot_ns(),
                                .thread = thread_,
                                .request = request_,
                                .kind = kind,
                                .a = a,
                                .b = b,
                                .word = std::move(word),
                                .claims = std::move(claims)}));
  }

  const Place place_;
  const unsigned thread_;
  stress::Random random_;
  std::optional<Space> space_;
  std::uint64_t request_ = 0;
};

std::shared_ptr<Store> open_store(const std::string& url) {
  for (;;) {
    try {
      return store(url);
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
      // The cluster is in trouble.
    }
  }
}

// Told: "URL LOG SEED"; works until it is told anything more; says "done".
void work(const museum::Line& line, std::atomic<std::uint64_t>& grants) {
  const std::optional<std::string> told = line.hear();
  if (!told) return;
  std::istringstream words{*told};
  std::string url;
  std::string path;
  std::uint64_t seed = 0;
  words >> url >> path >> seed;
  stress::Random random{seed};
  museum::move_wall_clock(std::chrono::minutes{below(random, 600)} - 5h);
  {
    const stress::Log log{path};
    const std::shared_ptr<Store> store = open_store(url);
    std::atomic<bool> stopping = false;
    std::vector<std::jthread> hands;
    for (unsigned i = 0; i < threads; ++i) {
      hands.emplace_back([&, i] {
        Hand hand{{.store = store, .log = log, .grants = grants}, i, seed + i};
        while (!stopping.load()) hand.round();
      });
    }
    static_cast<void>(line.hear());
    stopping.store(true);
  }
  line.say("done");
  static_cast<void>(line.hear());
}

}  // namespace

Fleet::Fleet(const Cluster& cluster, Options options)
    : cluster_(cluster),
      options_(std::move(options)),
      log_(options_.directory + "/driver.log"),
      members_(client_machines) {
  for (std::size_t member = 0; member < members_.size(); ++member) start(member);
}

void Fleet::note(const std::string& what, const std::string& name) const {
  log_.write(std::to_string(stress::boot_ns()) + ' ' + what + ' ' + name + '\n');
}

void Fleet::start(std::size_t member) {
  Member& one = members_[member];
  one.name = "worker-" + std::to_string(started_++);
  note("start", one.name);
  one.process = std::make_unique<museum::Process>(
      cluster_.on(member, [this](const museum::Line& line) { work(line, *grants_); }));
  one.process->tell(options_.url + ' ' + options_.directory + '/' + one.name + ".log " +
                    std::to_string(options_.seed + (started_ * threads)));
}

void Fleet::kill(std::size_t member) {
  note("kill", members_[member].name);
  members_[member].process->kill();
  start(member);
}

void Fleet::stop(std::size_t member) {
  Member& one = members_[member];
  note("stop", one.name);
  one.process->stop();
  one.stopped = true;
}

void Fleet::go_on(std::size_t member) {
  Member& one = members_[member];
  if (!std::exchange(one.stopped, false)) return;
  one.process->go_on();
  note("continue", one.name);
}

std::string Fleet::end() {
  for (std::size_t member = 0; member < size(); ++member) {
    go_on(member);
    members_[member].process->tell("end");
  }
  for (Member& one : members_) {
    if (one.process->hear() != "done") return one.name + " said something else";
    one.process->tell("exit");
    if (const int status = one.process->exit_status(); status != 0) {
      return one.name + " ended with status " + std::to_string(status);
    }
    note("end", one.name);
  }
  return {};
}

}  // namespace tenure::cluster

#include "bench/scale/fleet.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <string>

#include "space/sharded/shard_map.hpp"

namespace tenure::bench::scale {
namespace {

struct Samples {
  std::vector<double> lock;
  std::vector<double> handoff;
};

// One shard in its steady state.
class ShardRun {
 public:
  ShardRun(const Shard& shard, std::uint64_t seed, Samples& samples)
      : shard_(shard), kind_(*shard.figures), samples_(samples), random_(seed) {}

  void run(double seconds) {
    const double renewals = shard_.sessions / (shard_.lease * (kind_.earliest + kind_.latest) / 2);
    const double all = (2 * shard_.locks) + renewals;
    if (all <= 0) return;  // A shard without roots.
    std::exponential_distribution<double> gap{all};
    std::uniform_real_distribution<double> which{0, all};
    for (double now = gap(random_); now < seconds; now += gap(random_)) {
      look_again(now);
      const double pick = which(random_);
      if (pick < shard_.locks) {
        lock(now);
      } else if (pick < 2 * shard_.locks) {
        release(now);
      } else {
        server_.arrive(now, Service::fixed(kind_.renewal));
        renewal_work_ += kind_.renewal;
      }
    }
  }
  [[nodiscard]] double work() const noexcept { return server_.work(); }
  [[nodiscard]] double renewal_work() const noexcept { return renewal_work_; }

 private:
  struct Look {
    double at = 0;        // When the waiter was notified.
    double released = 0;  // When the holder asked for the release.
    bool operator>(const Look& other) const noexcept { return at > other.at; }
  };

  bool contended() { return share_(random_) < shard_.contended; }

  void lock(double now) {
    samples_.lock.push_back(server_.arrive(now, kind_.apply) - now);
    // In truth after the answer. The work is the same.
    if (contended()) server_.arrive(now, Service::fixed(kind_.watch));
  }

  void release(double now) {
    if (!contended()) {
      server_.arrive(now, kind_.apply);
      return;
    }
    const double signals = kind_.signal * shard_.listeners();
    looks_.push({.at = server_.arrive(
                     now, {.few = kind_.apply.few + signals, .many = kind_.apply.many + signals}),
                 .released = now});
  }

  // The waiters that were notified before `now`, in order.
  void look_again(double now) {
    for (; !looks_.empty() && looks_.top().at <= now; looks_.pop()) {
      const Look& look = looks_.top();
      const double end = server_.arrive(look.at, Service::fixed(kind_.look));
      samples_.handoff.push_back(end - look.released);
    }
  }

  const Shard& shard_;
  const Figures& kind_;
  Samples& samples_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> share_{0, 1};
  Server server_;
  double renewal_work_ = 0;
  std::priority_queue<Look, std::vector<Look>, std::greater<>> looks_;
};

Quantiles quantiles_of(std::vector<double>& samples) {
  if (samples.empty()) return {};
  const auto at = [&samples](double share) {
    const auto place = samples.begin() +
                       static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size() - 1));
    std::ranges::nth_element(samples, place);
    return *place;
  };
  return {.p50 = at(0.5), .p99 = at(0.99)};
}

}  // namespace

double Shard::listeners() const noexcept {
  if (figures->one_connection) return 0;
  return std::min(locks * contended * listens_after_wait, sessions);
}

double Shard::connections() const noexcept {
  return (sessions * (figures->one_connection ? 1 : 2)) + listeners();
}

std::vector<Shard> spread(const Fleet& fleet) {
  std::vector<std::string> names;
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < fleet.etcd + fleet.postgres; ++i) {
    const Figures& kind = i < fleet.etcd ? etcd_figures : postgres_figures;
    names.push_back(std::string{kind.name} + std::to_string(i));
    shards.push_back({.figures = &kind, .lease = fleet.lease, .contended = fleet.contended});
  }
  const double share = 1 / static_cast<double>(fleet.roots);
  for (std::size_t i = 0; i < fleet.roots; ++i) {
    const std::string& home = sharded::home_of("root" + std::to_string(i), names);
    shards[static_cast<std::size_t>(&home - names.data())].locks += share;
  }
  for (Shard& shard : shards) {
    const double elsewhere = std::pow(1 - shard.locks, static_cast<double>(fleet.roots_per_client));
    shard.sessions = fleet.clients * (1 - elsewhere);
    shard.locks *= fleet.locks;
  }
  return shards;
}

const Shard& hottest(const std::vector<Shard>& shards) {
  return *std::ranges::max_element(shards, {}, &Shard::sessions);
}

Steady simulate(const std::vector<Shard>& shards, Run run) {
  Steady result;
  Samples samples;
  double work = 0;
  double renewals = 0;
  for (const Shard& shard : shards) {
    ShardRun one{shard, run.seed++, samples};
    one.run(run.seconds);
    work += one.work();
    renewals += one.renewal_work();
    result.hottest_use = std::max(result.hottest_use, one.work() / run.seconds);
  }
  result.use = work / run.seconds / static_cast<double>(shards.size());
  result.renewal_share = renewals / work;
  result.lock = quantiles_of(samples.lock);
  result.handoff = quantiles_of(samples.handoff);
  return result;
}

}  // namespace tenure::bench::scale

// One client: a lock and its release, beside one put and one delete over the same connection.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/stored/ours.hpp"
#include "store/etcd/etcd_store.hpp"

namespace tenure::bench::cluster {
namespace {

constexpr std::chrono::microseconds round_time{5'000};
constexpr std::size_t rounds = 200;

template <class Step>
Race::Work repeat(Step step) {
  return [step](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) step();
  };
}

}  // namespace

void ask_etcd_uncontended(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  const auto store = etcd::open_etcd_alone(etcd_url(*server));
  const Space space = open(store);
  const Claim flat = book.exclusive();
  const Claim third = book(3, "x").exclusive();
  const Claim reader = book.shared();
  Race race{report.effort(), round_time};
  const auto ours = race.add(repeat([&] { stored::lock_and_release(space, flat); }));
  const auto deep = race.add(repeat([&] { stored::lock_and_release(space, third); }));
  const auto shared = race.add(repeat([&] { stored::lock_and_release(space, reader); }));
  const auto bare = race.add(repeat(BarePair{store->engine().client(), "bare"}));
  race.run(rounds);

  const Samples control = stored::in_us(race[bare]);
  const Report::Side rival{.name = "bare put + delete", .samples = control, .unit = "us"};
  report.compare("1 deep", {"", stored::in_us(race[ours]), "us"}, rival, at_most(1.15));
  report.compare("3 deep", {"", stored::in_us(race[deep]), "us"}, rival);
  report.compare("1 deep, shared", {"", stored::in_us(race[shared]), "us"}, rival);
}

}  // namespace tenure::bench::cluster

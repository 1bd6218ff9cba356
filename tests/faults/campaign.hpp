// campaign.hpp: processes that lock in a space while faults strike at random, and the verdict of
// the checker of tests/stress on their history.
//
//   Campaign campaign;
//   campaign.urls = {…};                      // One a process.
//   campaign.faults.push_back({.name = "cut", .strike = [&](Random&) {
//                                network.cut();
//                                return Undo{};
//                              }});
//   const Report report = run(campaign);
//   EXPECT_EQ(report.wrong, "");
//   std::puts(report.text().c_str());
//
// The seed determines the faults. They strike one after the other, each after a few grants or a
// second; every kind strikes before any is repeated. A fault that has to be undone is undone after
// a random part of two leases, while others strike. Processes are stopped and killed as well. At
// the end everything is undone; then each process must get a lock again, all must end when told,
// and a last process must get the whole space.
//
// Faults run on the thread that calls run(), and must not throw.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/kit/proxy.hpp"
#include "tests/stress/checker.hpp"
#include "tests/stress/fleet.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::faults {

using kit::Proxy;

using Undo = std::function<void()>;  // May be empty.

struct Fault {
  std::string name;  // One word.
  std::function<Undo(stress::Random&)> strike;
  bool alone = false;  // Not before another such fault is undone: both affect one server.
};

struct Campaign {
  std::vector<std::string> urls;  // By slot: what its process opens.
  std::vector<Fault> faults;
  std::uint64_t seed = 0;
  std::chrono::milliseconds time{10'000};
  std::chrono::milliseconds lease{2'000};
  stress::Fleet::Enter enter;
};

struct Report {
  std::string wrong;  // All violations; empty: none.
  stress::Figures figures;
  std::size_t proved = 0;  // Holds that are certain for some time.
  std::size_t violations = 0;
  std::map<std::string, std::size_t> faults;  // How many of each.

  [[nodiscard]] std::size_t struck() const;
  [[nodiscard]] std::string text() const;
};

// If something is wrong, the logs are kept, and `wrong` says where.
[[nodiscard]] Report run(const Campaign& campaign);

// What a proxy can do to the clients behind it.
[[nodiscard]] std::vector<Fault> network_faults(
    const std::vector<std::unique_ptr<Proxy>>& networks);

}  // namespace tenure::faults

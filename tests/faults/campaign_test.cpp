// Campaigns (campaign.hpp) on the stores that are reached over a network.
//
// TENURE_FAULTS_RUNS (1) histories of TENURE_FAULTS_SECONDS (10) each. TENURE_FAULTS_SEED repeats
// the requests and faults of the first one, not their interleaving.
#include "tests/faults/campaign.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::faults {
namespace {

using kit::lock_client;
using kit::Postgres;
using kit::Proxy;
using kit::Schema;
using stress::Random;
using Networks = std::vector<std::unique_ptr<Proxy>>;

constexpr std::size_t workers = 4;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it.
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

Networks networks_to(int port) {
  Networks networks;
  while (networks.size() < workers) networks.push_back(std::make_unique<Proxy>(port));
  return networks;
}

// `prepare` sets the URLs and faults of each history.
template <class Prepare>
void run_all(const char* store, int port, const Prepare& prepare) {
  const std::uint64_t runs = number_of("TENURE_FAULTS_RUNS", 1);
  std::uint64_t seed = number_of("TENURE_FAULTS_SEED", std::random_device{}());
  std::size_t operations = 0;
  std::size_t grants = 0;
  std::size_t faults = 0;
  std::size_t violations = 0;
  for (std::uint64_t i = 0; i < runs; ++i, ++seed) {
    const Networks networks = networks_to(port);
    Campaign campaign;
    campaign.seed = seed;
    campaign.time = std::chrono::seconds{number_of("TENURE_FAULTS_SECONDS", 10)};
    campaign.faults = network_faults(networks);
    prepare(networks, campaign);
    std::printf("%s: TENURE_FAULTS_SEED=%llu\n", store, static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    const Report report = run(campaign);
    EXPECT_EQ(report.wrong, "") << "seed " << seed;
    EXPECT_GT(report.struck(), 0U) << "seed " << seed;
    std::fputs(report.text().c_str(), stdout);
    operations += report.figures.requests;
    grants += report.figures.grants;
    faults += report.struck();
    violations += report.violations;
  }
  std::printf("%s: %llu histories, %zu operations, %zu grants, %zu faults, %zu violations\n", store,
              static_cast<unsigned long long>(runs), operations, grants, faults, violations);
}

// All connections of clients, if the server is running.
Undo end_backends(Random& /*random*/) {
  Postgres::instance().sql(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
      "WHERE application_name='tenure'");
  return {};
}

Fault crash_of_postgres(const char* name, int signal) {
  return {.name = name,
          .strike = [signal](Random& /*random*/) -> Undo {
            Postgres::instance().kill(signal);
            return [] { Postgres::instance().restart(); };
          },
          .alone = true};
}

TEST(Campaign, Postgres) {
  const Postgres& server = Postgres::instance();
  std::vector<std::unique_ptr<Schema>> schemas;
  run_all("postgres", server.port(), [&](const Networks& networks, Campaign& campaign) {
    schemas.push_back(std::make_unique<Schema>());
    for (const auto& network : networks) {
      campaign.urls.push_back(schemas.back()->url_at(network->port()));
    }
    campaign.faults.push_back(crash_of_postgres("crash", SIGKILL));
    campaign.faults.push_back(crash_of_postgres("immediate", SIGQUIT));
    campaign.faults.push_back({.name = "terminate", .strike = end_backends, .alone = true});
  });
}

TEST(Campaign, Etcd) {
  kit::Etcd server;
  run_all("etcd", server.port(), [&](const Networks& networks, Campaign& campaign) {
    const std::string prefix = kit::new_prefix();
    for (const auto& network : networks) {
      campaign.urls.push_back("etcd://127.0.0.1:" + std::to_string(network->port()) + '/' + prefix +
                              "?timeout=2s");
    }
    campaign.faults.push_back({.name = "crash",
                               .strike = [&server](Random& /*random*/) -> Undo {
                                 server.kill();
                                 return [&server] { server.restart(); };
                               },
                               .alone = true});
    campaign.faults.push_back({.name = "server-stops",
                               .strike = [&server](Random& /*random*/) -> Undo {
                                 server.signal(SIGSTOP);
                                 return [&server] { server.signal(SIGCONT); };
                               },
                               .alone = true});
  });
}

}  // namespace
}  // namespace tenure::faults

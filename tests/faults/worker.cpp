// A worker of a campaign: two threads that lock in the space of a URL until SIGTERM, which the
// starting process has blocked.
//
//   faults_worker DIRECTORY NAME SLOT SEED LEASE_MS URL PROOF MINUTES
//
// PROOF is guard or silence (fault_client.hpp). The wall clock of the process is wrong by MINUTES.
// With the word "last" for SEED the worker takes the whole space once, and ends.
#include <signal.h>  // NOLINT: sigtimedwait is POSIX's.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/fault_client.hpp"
#include "tests/kit/clock.hpp"
#include "tests/stress/progress.hpp"

namespace tenure::faults {
namespace {

constexpr unsigned threads = 2;

// There is no store while the server is down.
std::shared_ptr<Store> open_store(const std::string& url) {
  for (;;) {
    try {
      return store(url);
    } catch (const StoreError&) {
      std::this_thread::yield();
    }
  }
}

// Ends waits at random until it is told to stop.
void disturb(const std::vector<std::unique_ptr<FaultClient>>& clients, stress::Random& random) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  for (;;) {
    const timespec nap{.tv_sec = 0,
                       .tv_nsec = static_cast<long>(stress::below(random, 50'000'000))};
    if (::sigtimedwait(&signals, nullptr, &nap) == SIGTERM) return;
    clients[stress::below(random, clients.size())]->stop_waiting();
  }
}

int run(const std::vector<std::string>& words) {
  const std::string& directory = words.at(1);
  kit::move_wall_clock(std::chrono::minutes{std::stol(words.at(8))});
  const stress::Log log{directory + '/' + words.at(2) + ".log"};
  const stress::Log life{directory + '/' + words.at(2) + ".life"};
  const stress::Progress progress{directory + "/progress"};
  const FaultClient::Setup setup{
      .store = open_store(words.at(6)),
      .log = log,
      .life = life,
      .grants = progress.grants(std::stoul(words.at(3))),
      .lease = std::chrono::milliseconds{std::stol(words.at(5))},
      .proof = words.at(7) == "guard" ? FaultClient::Proof::guard : FaultClient::Proof::silence};
  if (words.at(4) == "last") {
    const std::string wrong = FaultClient{setup, 0, 0}.take_all();
    if (!wrong.empty()) std::fprintf(stderr, "faults_worker: %s\n", wrong.c_str());
    return wrong.empty() ? 0 : 3;
  }
  stress::Random random{std::stoull(words.at(4))};
  std::vector<std::unique_ptr<FaultClient>> clients;
  clients.reserve(threads);
  for (unsigned thread = 0; thread < threads; ++thread) {
    clients.push_back(std::make_unique<FaultClient>(setup, thread, random()));
  }
  std::atomic<bool> stopping = false;
  std::vector<std::jthread> running;
  running.reserve(threads);
  for (const auto& client : clients) {
    running.emplace_back([&stopping, &client] {
      while (!stopping.load()) client->round();
    });
  }
  disturb(clients, random);
  stopping.store(true);
  return 0;
}

}  // namespace
}  // namespace tenure::faults

int main(int count, char** words) {
  try {
    return tenure::faults::run({words, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "faults_worker: %s\n", error.what());
    return 1;
  }
}

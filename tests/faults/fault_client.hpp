// fault_client.hpp: one thread of a worker: requests, holds, releases, and logs each step as
// tests/stress does, on a store that may fail at any moment.
//
// A lease can end without its holder's knowledge, so a hold is certain only at moments for which
// there is proof; each `until` in the log is one:
//   guard   an apply with the hold's guard committed after that moment. No clock is trusted.
//   silence lost() had not fired after that moment. A program that checks lost() before each
//           step relies on this, so two holders that are certain at once are a violation,
//           without any margin.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tenure/space.hpp"
#include "tests/stress/event.hpp"
#include "tests/stress/recorder.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::faults {

class FaultClient : public stress::Recorder {
 public:
  enum class Proof : std::uint8_t { guard, silence };
  struct Setup {
    std::shared_ptr<Store> store;
    const stress::Log& log;
    // When spaces are opened and closed, for people who analyse a failure.
    const stress::Log& life;
    std::atomic<std::uint64_t>& grants;  // Counted for the driver.
    std::chrono::milliseconds lease;
    Proof proof = Proof::guard;
  };
  FaultClient(Setup setup, unsigned thread, std::uint64_t seed)
      : Recorder(setup.log, setup.grants, thread, seed),
        setup_(std::move(setup)),
        thread_(thread) {}

  void round();  // One request, in a session of its own; in a new one after that is lost.
  // Locks the whole space and releases it. Returns what is wrong with its content; empty: nothing.
  [[nodiscard]] std::string take_all();

 private:
  enum class Way : std::uint8_t { lock, lock_stop, try_lock, try_lock_for };
  [[nodiscard]] bool reopen();
  void close();
  void note(const std::string& what) const;
  [[nodiscard]] std::optional<Hold> ask(Way way, const std::vector<Claim>& claims);
  [[nodiscard]] std::optional<Hold> call(Way way, const std::vector<Claim>& claims,
                                         const std::stop_token& stop);
  void keep(const Hold& hold);
  void keep_until_lost(const Hold& hold, std::chrono::nanoseconds time);
  void prove(const Hold& hold, bool with_write);
  void leave(Hold hold);

  Setup setup_;
  unsigned thread_;
  std::unique_ptr<Space> space_;
  std::uint64_t request_ = 0;
};

}  // namespace tenure::faults

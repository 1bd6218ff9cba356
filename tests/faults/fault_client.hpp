// fault_client.hpp: one thread of a worker: asks, holds, gives back, and writes down each step, as
// tests/stress has it, on a store that may fail at any moment.
//
// A lease can end while its holder does not know, so a hold is certain only at moments of which
// there is proof; each `until` in the log is one:
//   guard   an apply with the hold's guard committed after that moment. No clock is trusted.
//   silence lost() had not fired yet after that moment. It is what a program relies on that looks
//           at lost() before each step, so two that are certain at once are a violation, without
//           any margin.
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
    const stress::Log& life;             // When spaces are opened and closed: for who reads why.
    std::atomic<std::uint64_t>& grants;  // Counted for the driver.
    std::chrono::milliseconds lease;
    Proof proof = Proof::guard;
  };
  FaultClient(Setup setup, unsigned thread, std::uint64_t seed)
      : Recorder(setup.log, setup.grants, thread, seed),
        setup_(std::move(setup)),
        thread_(thread) {}

  void round();  // One request, in a session of its own; another one when that is lost.
  // Takes the whole space and gives it back. What is wrong with what was in it; empty: nothing.
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

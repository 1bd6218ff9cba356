// demo_scenario.hpp: actors that lock and release on cue, and a timeline of what each one did.
//
// Each actor is a thread. A cue returns when every actor has done what it was told, or waits. Then
// the events are printed, one row per event, in the order of the times that the actors recorded.
//
//   an actor's column | means
//   ------------------+--------------------------------------------
//   ┃                 | holds something
//   ┊                 | waits
//   (nothing)         | neither
//
// Thread safety: cues are given by one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenure/tenure.hpp"
#include "terminal.hpp"

namespace tenure::cli {

class DemoScenario {
 public:
  static constexpr std::size_t max_actors = 4;  // 80 characters have room for so many columns.

  // An actor's name is also the owner of its requests.
  DemoScenario(const Terminal& terminal, std::string_view title, std::string_view story,
               std::vector<std::string> actors);
  DemoScenario(const DemoScenario&) = delete;
  DemoScenario(DemoScenario&&) = delete;
  DemoScenario& operator=(const DemoScenario&) = delete;
  DemoScenario& operator=(DemoScenario&&) = delete;
  ~DemoScenario();

  void asks(std::size_t actor, Claim claim);
  void leaves(std::size_t actor);  // Releases everything.
  void is_evicted(std::size_t actor);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { idle, waiting, holding };
  struct Event {
    Clock::time_point at;
    std::size_t actor = 0;
    State state = State::idle;
    std::string word;
    std::string note;  // Printed below the row.
  };
  struct Actor {
    std::string name;
    State shown = State::idle;  // As printed; used by the cueing thread.
    std::jthread thread;
  };
  struct Mailbox {
    std::deque<std::function<void()>> cues;  // Guarded by mutex_, like the rest.
    bool busy = false;
    std::optional<Event> asking;  // What to show if it turns out to wait.
  };

  struct Looks {
    const char* bar;
    Style style;
  };

  void tell(std::size_t actor, std::function<void()> cue);
  void run(std::size_t actor, const std::stop_token& stop);
  void ask(std::size_t actor, const Claim& claim);
  void note(Event event);
  [[nodiscard]] bool waits(std::string_view owner) const;
  void print_when_idle();
  [[nodiscard]] static Looks looks(State state);
  void print(const Event& event);

  Terminal terminal_;
  Clock::time_point start_ = Clock::now();
  Space space_ = open("local:");
  std::vector<std::vector<Hold>> holds_;  // Each used by its actor's thread.
  std::vector<Token> newest_;             // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable_any cue_came_;
  std::vector<Mailbox> mailboxes_;  // Guarded by mutex_.
  std::vector<Event> events_;       // Guarded by mutex_.
  std::vector<Actor> actors_;       // Last: its threads use all of the above.
};

}  // namespace tenure::cli

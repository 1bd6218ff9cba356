// patience.hpp: a test that waits for what never comes fails, and says what it waited for.
//
//   kit::until([&] { return granted.load(); });   // file.cpp:12: waited 60 s for this state
//
// Two bounds turn a hang, such as a lost wake-up, into a failure. Neither is an assertion about
// speed: both are far longer than any machine needs.
//
//   patience()  one wait of a helper here; 60 s
//   limit       one whole test: a call of the library that never returns, a thread that never ends
//
// TENURE_TEST_PATIENCE=SECONDS sets the first, and the limit to twice as much.
// TENURE_TEST_LIMIT=SECONDS sets the limit alone, 0: none.
// The limit is an alarm(), not a thread, because tests fork.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <chrono>
#include <source_location>
#include <string_view>
#include <thread>

namespace tenure::kit {

[[nodiscard]] std::chrono::seconds patience();

// Prints which test waited where, and for what, and aborts the program.
[[noreturn]] void give_up(std::string_view what,
                          std::source_location where = std::source_location::current());

// Gives up when the state does not come.
template <class Condition>
void until(const Condition& reached, std::source_location where = std::source_location::current()) {
  const auto end = std::chrono::steady_clock::now() + patience();
  while (!reached()) {
    if (std::chrono::steady_clock::now() > end) give_up("this state", where);
    std::this_thread::yield();
  }
}

// What this thread waits for while one exists: the limit of the test reports it. Literals only.
class Awaiting {
 public:
  explicit Awaiting(const char* what) noexcept : before_(current.exchange(what)) {}
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;
  ~Awaiting() { current.store(before_); }

 private:
  friend void on_limit(int signal) noexcept;
  static std::atomic<const char*> current;  // Of the latest to wait, in whichever thread.
  const char* const before_;
};

// For main(): the limit of the test that begins, and its end.
void begin_test(std::string_view suite, std::string_view name);
void end_test() noexcept;

}  // namespace tenure::kit

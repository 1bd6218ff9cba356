#include "tests/kit/patience.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace tenure::kit {
namespace {

constexpr int default_patience = 60;
constexpr int default_limit = 100;  // Less than ctest's own limit of 120 s.

std::optional<int> seconds_in(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): set by nobody here.
  return text == nullptr ? std::nullopt : std::optional{std::atoi(text)};
}

// Cut off where it is too long. Written by begin_test(), and read by a signal handler.
std::array<char, 256> running{"no test"};

}  // namespace

std::atomic<const char*> Awaiting::current = nullptr;

std::chrono::seconds patience() {
  return std::chrono::seconds{seconds_in("TENURE_TEST_PATIENCE").value_or(default_patience)};
}

void give_up(std::string_view what, std::source_location where) {
  std::fprintf(stderr, "%s:%u: Failure\n%s waited %lld s for %.*s, which did not come.\n",
               where.file_name(), where.line(), running.data(),
               static_cast<long long>(patience().count()), static_cast<int>(what.size()),
               what.data());
  std::abort();
}

// Only calls that a signal handler may make.
void on_limit(int /*signal*/) noexcept {
  const auto say = [](const char* text) {
    static_cast<void>(::write(STDERR_FILENO, text, std::strlen(text)) < 0);
  };
  const char* const what = Awaiting::current.load();
  say("Failure\n");
  say(running.data());
  say(" reached its time limit: a wake-up was lost, or a thread hangs. It waited for ");
  say(what == nullptr ? "a call to return, or a thread to end" : what);
  say(".\n");
  std::abort();
}

void begin_test(std::string_view suite, std::string_view name) {
  const auto add = [](std::size_t at, std::string_view text) {
    const std::size_t size = std::min(text.size(), running.size() - 1 - at);
    std::memcpy(running.data() + at, text.data(), size);
    running.at(at + size) = '\0';
    return at + size;
  };
  add(add(add(0, suite), "."), name);
  int limit = seconds_in("TENURE_TEST_LIMIT").value_or(default_limit);
  // Twice as long: a wait that gives up first knows more.
  if (const auto patience = seconds_in("TENURE_TEST_PATIENCE")) limit = 2 * *patience;
  if (limit <= 0) return;
  std::signal(SIGALRM, on_limit);
  ::alarm(static_cast<unsigned>(limit));
}

void end_test() noexcept { ::alarm(0); }

}  // namespace tenure::kit

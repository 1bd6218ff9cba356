// leaving.cpp: a program that locks something and ends normally, in the way that it is told. When
// it has exited, nothing of it may be left in the store.
//
//   museum_leaving URL WAY
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "tenure/tenure.hpp"

namespace {

using tenure::Hold;
using tenure::Space;
using namespace std::chrono_literals;

const tenure::Path book = tenure::Path::of("book");

void hold(const std::string& url) {
  const Space space = tenure::open(url);
  const Hold last = space.lock(book);
}

void with(const std::string& url) {
  const Space space = tenure::open(url);
  space.with(book, [] {});
}

void scoped(const std::string& url) {
  const Space space = tenure::open(url);
  tenure::Mutex mutex = space.mutex(book);
  const std::scoped_lock lock{mutex};
}

void closed(const std::string& url) {
  static Space* const space = new Space{tenure::open(url)};  // Never destroyed.
  {
    const Hold last = space->lock(book);
  }
  space->close();
}

void in_statics(const std::string& url) {
  static const Space space = tenure::open(url);
  static const Hold last = space.lock(book);
}

// The space is destroyed first.
void outlives(const std::string& url) {
  static Hold last;
  static const Space space = tenure::open(url);
  last = space.lock(book);
}

// With all threads that a space can have.
void timed(const std::string& url) {
  static const Space space = tenure::open(url);
  static const Hold last = space.max_hold(1h).lock(book);
  static const std::stop_callback callback{last.lost(), [] {}};
  static const std::optional<Hold> refused = space.try_lock_for(book, 1ms);
}

// A callback of lost() still runs when main() returns. It must have ended when a static object that
// is older than the space is destroyed.
void told(const std::string& url) {
  static std::atomic<bool> called = false;
  static std::atomic<bool> leaving = false;
  static std::atomic<bool> done = false;
  struct Older {
    Older() = default;
    Older(const Older&) = delete;
    Older& operator=(const Older&) = delete;
    ~Older() {
      if (!done.load()) std::_Exit(3);
    }
  };
  struct First {  // Constructed last, so destroyed first.
    First() = default;
    First(const First&) = delete;
    First& operator=(const First&) = delete;
    ~First() { leaving.store(true); }
  };
  static const Older older;
  static const Space space = tenure::open(url);
  static const Hold last = space.lock(book);
  const auto callback = [] {
    called.store(true);
    called.notify_all();
    while (!leaving.load()) std::this_thread::yield();
    // Long enough to detect an exit that does not wait, and far shorter than an exit waits.
    std::this_thread::sleep_for(100ms);
    done.store(true);
  };
  // Never destroyed: its destructor would wait.
  static const auto* const kept = new std::stop_callback{last.lost(), callback};
  static_cast<void>(kept);
  static_cast<void>(space.evict_now(last.token()));
  called.wait(false);
  static const First first;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(const std::string&)>> ways = {
      {"hold", hold},          {"with", with},         {"scoped", scoped}, {"closed", closed},
      {"statics", in_statics}, {"outlives", outlives}, {"timed", timed},   {"told", told}};
  try {
    if (argc != 3) return 2;
    ways.at(argv[2])(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "museum_leaving: %s\n", error.what());
    return 1;
  }
}

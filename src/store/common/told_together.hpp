// told_together.hpp: callbacks that a store calls one after the other, for one batch of
// transactions. What they have in common, such as waking a thread, can wait for the last of them.
//
// Thread safety: one thread has it.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tenure::stores {

class ToldTogether {
 public:
  ToldTogether() noexcept : outer_(std::exchange(current, this)) {}
  ToldTogether(const ToldTogether&) = delete;
  ToldTogether& operator=(const ToldTogether&) = delete;
  ~ToldTogether() {
    current = outer_;
    for (const Call& call : calls_) call.what();
  }

  // Whether the calling thread is in such a callback.
  [[nodiscard]] static bool here() noexcept { return current != nullptr; }
  // Calls it after the last callback, once for each `who`. Only while here().
  static void at_end(const void* who, std::function<void()> what) {
    std::vector<Call>& calls = current->calls_;
    if (std::ranges::find(calls, who, &Call::who) != calls.end()) return;
    calls.push_back({.who = who, .what = std::move(what)});
  }

 private:
  struct Call {
    const void* who;
    std::function<void()> what;
  };
  static inline thread_local ToldTogether* current = nullptr;

  ToldTogether* const outer_;
  std::vector<Call> calls_;
};

}  // namespace tenure::stores

// detached.hpp: a coroutine that nobody waits for. Its frame goes when it ends; it must not throw.
#pragma once

#include <coroutine>
#include <exception>

namespace tenure::base {

struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the standard's name.
    [[nodiscard]] static Detached get_return_object() noexcept { return {}; }
    [[nodiscard]] static std::suspend_never initial_suspend() noexcept { return {}; }
    [[nodiscard]] static std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] static void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace tenure::base

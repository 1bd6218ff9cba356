// thrown_by.hpp: an exception as a value that another thread can be given.
//
// In a handler, std::current_exception() adds a reference to the handler's own. A thread that hands
// the exception over inside the handler may then be the one that destroys it, after the other
// thread has read it. libstdc++ counts references correctly, but the thread sanitizer does not see
// it.
#pragma once

#include <exception>
#include <utility>

namespace tenure::base {

// What the call throws, or null. The caller has the only reference to it.
template <class F>
[[nodiscard]] std::exception_ptr thrown_by(F&& call) noexcept {
  try {
    std::forward<F>(call)();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace tenure::base

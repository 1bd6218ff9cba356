// await_shapes.hpp: arguments that g++ 12 compiles wrongly inside an expression with co_await.
//
// An aggregate, or a closure, that is made inside such an expression is copied byte by byte into
// the frame and destroyed twice. The checks accept a variable, and what owns nothing. They reject
// some harmless calls, too: the type alone does not say how the value was made.
#pragma once

#include <type_traits>

namespace tenure::detail {

#if defined(__GNUC__) && !defined(__clang__)
inline constexpr bool miscompiles_temporaries = true;
#else
inline constexpr bool miscompiles_temporaries = false;
#endif

// A is the type of a forwarding reference.
template <class A>
inline constexpr bool is_safe_to_await =
    !miscompiles_temporaries || std::is_lvalue_reference_v<A> ||
    std::is_trivially_copyable_v<std::remove_reference_t<A>>;

template <class... A>
consteval void check_awaited_values() {
  static_assert(((is_safe_to_await<A> || !std::is_aggregate_v<std::remove_reference_t<A>>) && ...),
                "g++ would destroy this aggregate twice: make it a variable before co_await, and "
                "pass the variable (docs/workflows.md, With g++)");
}
template <class... F>
consteval void check_awaited_closures() {
  static_assert((is_safe_to_await<F> && ...),
                "g++ would destroy what this lambda captured twice: make the lambda a variable "
                "before co_await, and pass the variable (docs/workflows.md, With g++)");
}

}  // namespace tenure::detail

// request.hpp: what a lock call takes: a path or name (exclusive), a claim, or several claims.
//
// A view: claims that were passed as lvalues or in braces are not copied, so it is for the
// expression that it is made in. Temporaries of one path or claim are moved into it.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "tenure/claim.hpp"

namespace tenure {

// NOLINTBEGIN(google-explicit-constructor): converting is what it is for.
class Request {
 public:
  Request(const Claim& claim) noexcept : claims_(&claim, 1) {}
  Request(Claim&& claim) : own_(std::move(claim)) {}
  Request(std::span<const Claim> claims) noexcept : claims_(claims) {}
  Request(std::initializer_list<Claim> claims) noexcept : claims_(claims.begin(), claims.size()) {}
  template <std::ranges::contiguous_range R>
    requires std::same_as<std::ranges::range_value_t<R>, Claim>
  Request(const R& claims) noexcept
      : claims_(std::ranges::data(claims), std::ranges::size(claims)) {}
  template <std::convertible_to<Path> P>
  Request(P&& path) : own_(std::in_place, std::forward<P>(path)) {}

  [[nodiscard]] std::span<const Claim> claims() const noexcept {
    return own_.has_value() ? std::span<const Claim>{&*own_, 1} : claims_;
  }

 private:
  std::optional<Claim> own_;
  std::span<const Claim> claims_;
};
// NOLINTEND(google-explicit-constructor)

}  // namespace tenure

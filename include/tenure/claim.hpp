// claim.hpp: how a path is locked (Mode), path and mode together (Claim), and the claims of one
// call (Request).
//
//   mode a \ mode b   | exclusive | group g            | another group
//   ------------------+-----------+--------------------+--------------
//   exclusive         | excludes  | excludes           | excludes
//   group g           | excludes  | together, up to    | excludes
//                     |           | the limit, if any  |
//
// `shared` is the group "shared"; `permits(n)` is the group "permits" with at most n members at a
// time on its path: a semaphore. A member may take several permits at once: `permits(10).take(3)`.
//
// Thread safety: values; a Request is a view of claims.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/path.hpp"

namespace tenure {

class Mode {
 public:
  static constexpr std::size_t max_name = 256;
  // exclusive and shared are distinguished without comparing names.
  enum class Kind : std::uint8_t { exclusive, shared, named };

  constexpr Mode() noexcept = default;  // Exclusive.
  [[nodiscard]] static constexpr Mode exclusive() noexcept { return Mode{}; }
  [[nodiscard]] static constexpr Mode shared() { return Mode{"shared", 0}; }
  // A name is one or more bytes of any value. Throws BadRequest for an empty name or a limit of 0.
  [[nodiscard]] static constexpr Mode group(std::string_view name) { return Mode{name, 0}; }
  [[nodiscard]] static constexpr Mode group(std::string_view name, std::uint32_t limit) {
    if (limit == 0) throw BadRequest("a limit of 0 would admit no holder: use at least 1");
    return Mode{name, limit};
  }
  [[nodiscard]] static constexpr Mode permits(std::uint32_t limit) {
    return group("permits", limit);
  }
  // The same mode, taking `weight` of its limit instead of 1. Throws BadRequest for a mode without
  // a limit, and for a weight of 0 or beyond the limit.
  [[nodiscard]] constexpr Mode take(std::uint32_t weight) const {
    if (limit_ == 0) throw BadRequest("only a mode with a limit can take several: use permits(N)");
    if (weight == 0) throw BadRequest("a request that takes 0 of a limit: take at least 1");
    if (weight > limit_) {
      throw BadRequest(
          "a request that takes more than the limit would wait forever: take at most " +
          std::to_string(limit_) + ", not " + std::to_string(weight));
    }
    Mode mode = *this;
    mode.weight_ = weight;
    return mode;
  }

  // The same group and weight with another limit. Throws as group() and take() do.
  [[nodiscard]] constexpr Mode with_limit(std::uint32_t limit) const {
    return group(name(), limit).take(weight_);
  }

  [[nodiscard]] constexpr Kind kind() const noexcept { return kind_; }
  [[nodiscard]] constexpr bool is_exclusive() const noexcept { return kind_ == Kind::exclusive; }
  // The group's name; empty for exclusive.
  [[nodiscard]] constexpr std::string_view name() const noexcept {
    return kind_ == Kind::shared ? std::string_view{"shared"} : std::string_view{name_};
  }
  [[nodiscard]] constexpr std::uint32_t limit() const noexcept { return limit_; }  // 0: none.
  // How many of the limit a member takes; 1 without a limit.
  [[nodiscard]] constexpr std::uint32_t weight() const noexcept { return weight_; }

  // Two modes of one group, whatever their limits and weights.
  [[nodiscard]] constexpr bool same_group(const Mode& other) const noexcept {
    return kind_ == other.kind_ && kind_ != Kind::exclusive && name_ == other.name_;
  }
  [[nodiscard]] constexpr bool excludes(const Mode& other) const noexcept {
    return !same_group(other);
  }

  // "exclusive", "shared", "pull", "permits(3)", "permits(10) take=3"; other bytes escaped as in a
  // path's text.
  [[nodiscard]] std::string text() const;

  friend constexpr bool operator==(const Mode&, const Mode&) = default;

 private:
  constexpr Mode(std::string_view name, std::uint32_t limit) : limit_(limit), kind_(Kind::shared) {
    if (name.empty()) throw BadRequest("the name of a group is empty: use 1 to 256 bytes");
    if (name.size() > max_name) {
      throw BadRequest("the name of a group is longer than 256 bytes: shorten it");
    }
    if (name != "shared") {
      kind_ = Kind::named;
      name_ = name;
    }
  }

  std::uint32_t limit_ = 0;
  std::uint32_t weight_ = 1;
  Kind kind_ = Kind::exclusive;
  std::string name_;  // Of Kind::named only.
};

struct Claim {
  Path path;
  Mode mode;

  Claim() = default;
  Claim(Path p, Mode m) : path(std::move(p)), mode(std::move(m)) {}
  // A bare path (a Name, or a string as in path.hpp) is an exclusive claim on it.
  template <std::convertible_to<Path> P>
    requires(!std::same_as<std::remove_cvref_t<P>, Claim>)
  Claim(P&& p) : path(std::forward<P>(p)) {}  // NOLINT(google-explicit-constructor)

  // The same claim, taking `weight` of its limit: Mode::take().
  [[nodiscard]] Claim take(std::uint32_t weight) const { return {path, mode.take(weight)}; }

  // "book/3", "book/3:shared", "vendor:permits(3)", "vendor:permits(10) take=3".
  [[nodiscard]] std::string text() const;
  // The same from text: a typed path (path.hpp), then the mode behind the last colon, if any:
  // exclusive, shared, permits(N), the name of a group, or GROUP(N); behind a limit, one space and
  // take=W. The error says what to write instead.
  [[nodiscard]] static std::expected<Claim, std::string> parse(std::string_view text);

  friend bool operator==(const Claim&, const Claim&) = default;
};

// What a lock call takes: a path or name (exclusive), a claim, or several claims. A view: claims
// that were passed as lvalues or in braces are not copied, so it is for the expression that it is
// made in. Temporaries of one path or claim are moved into it.
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

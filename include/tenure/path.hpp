// path.hpp: what is locked: a sequence of segments from the root downwards, each of any bytes.
//
//   Path::of("book", 3)          book/3            two segments
//   Path::of("a/b")              a%2Fb             one segment that contains a slash
//   Path{}                       /                 the root: the whole space
//   Path::parse("book/3")        the same as Path::of("book", 3)
//   Path{"book/3"}               the same, of a text that a person or a program has typed
//
// Text form. Segments are joined by '/'; the root is "/"; an empty segment is "". Printable
// characters (valid UTF-8) stand for themselves, except '/', '%', '"', space, invisible characters
// and characters that change the direction of text. Those, and bytes that are not UTF-8, are
// written %XX in upper case. parse() accepts only this form, so two texts are equal exactly when
// the paths are.
//
// Typed text: what every call that takes a Path accepts as a string, and the command line as PATH.
// As the text form, but a slash at either end is ignored, and characters that the text form escapes
// may stand for themselves ("nightly backup"). A percent sign still begins an escape.
//
// Layout. Bytes are each segment's length (LEB128) and then its content, so a path's bytes are a
// prefix of another's exactly when it covers the other: no segment can imitate a boundary. Up to
// `inline_bytes` need no allocation. The hash is kept: a table lookup costs no pass over the bytes.
//
// Thread safety: a value.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/uuid.hpp"

namespace tenure {

class Path;
struct Claim;

// Where and why a text is not a path.
struct PathError {
  std::size_t at = 0;    // Offset of the first byte that is wrong.
  std::string_view why;  // What is wrong there, and what to write instead.
  [[nodiscard]] std::string message(std::string_view text) const;
};

// To use a type of your own as an argument of a name or of Path::of, write beside it
//   void append_to(tenure::Path& path, const Isbn& isbn) { path.append(isbn.text()); }
template <class T>
concept AppendsToPath = requires(Path& path, const T& value) { append_to(path, value); };

class Path {
 public:
  static constexpr std::size_t max_depth = 64;
  static constexpr std::size_t max_bytes = 4096;  // Of all segments with their lengths.
  static constexpr std::size_t inline_bytes = 40;

  class Segments;

  constexpr Path() noexcept = default;
  constexpr Path(const Path& other);
  constexpr Path(Path&& other) noexcept { take(other); }
  constexpr Path& operator=(const Path& other);
  constexpr Path& operator=(Path&& other) noexcept;
  constexpr ~Path() { delete[] heap_; }

  // Typed text. Throws BadRequest for a text that is not a path; a colon is part of the path
  // (Claim::parse reads a mode behind it).
  template <class S>
    requires std::convertible_to<const S&, std::string_view>
  Path(const S& typed)  // NOLINT(google-explicit-constructor): "deploy/prod" where a Path is taken.
      : Path(from_typed(std::string_view{typed})) {}

  // One segment per argument: integers in decimal, enums as their number, strings of any bytes,
  // Uuid, file system paths (normalized as text, without a trailing slash), and AppendsToPath.
  template <class... Args>
  [[nodiscard]] static constexpr Path of(const Args&... args);

  [[nodiscard]] static std::expected<Path, PathError> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  // Throws BadRequest if the path would exceed max_depth or max_bytes; the path is then unchanged.
  constexpr Path& append(std::string_view segment);
  template <class Arg>
  constexpr Path& append_value(const Arg& arg);

  [[nodiscard]] constexpr std::size_t depth() const noexcept { return depth_; }
  [[nodiscard]] constexpr bool is_root() const noexcept { return depth_ == 0; }
  [[nodiscard]] constexpr Segments segments() const noexcept;
  [[nodiscard]] constexpr Path prefix(std::size_t depth) const;  // The first `depth` segments.
  [[nodiscard]] constexpr Path parent() const { return prefix(depth_ == 0 ? 0 : depth_ - 1U); }

  // Whether a claim on this path covers `other`: it is the same path or an ancestor of it.
  [[nodiscard]] constexpr bool covers(const Path& other) const noexcept {
    return size_ <= other.size_ && same_bytes(data(), other.data(), size_);
  }

  // Claims on this path; a bare path is an exclusive one.
  [[nodiscard]] Claim exclusive() const;
  [[nodiscard]] Claim shared() const;
  [[nodiscard]] Claim group(std::string_view name) const;
  [[nodiscard]] Claim group(std::string_view name, std::uint32_t limit) const;
  [[nodiscard]] Claim permits(std::uint32_t limit) const;

  // For tables: the layout above, its hash, and the hash of the first two segments. Tables are
  // split by the latter, so that siblings below one name are in different parts.
  [[nodiscard]] constexpr std::string_view bytes() const noexcept { return {data(), size_}; }
  [[nodiscard]] constexpr std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] constexpr std::uint32_t route() const noexcept { return route_; }

  friend constexpr bool operator==(const Path& a, const Path& b) noexcept {
    return a.hash_ == b.hash_ && a.size_ == b.size_ && same_bytes(a.data(), b.data(), a.size_);
  }
  // Segment by segment, so that a path sorts directly before the paths below it.
  friend constexpr std::strong_ordering operator<=>(const Path& a, const Path& b) noexcept;
  friend constexpr Path operator/(Path a, const Path& b);
  friend std::ostream& operator<<(std::ostream& out, const Path& path);

 private:
  static constexpr std::uint64_t root_hash = 0x9e3779b97f4a7c15U;

  [[nodiscard]] constexpr const char* data() const noexcept {
    return heap_ != nullptr ? heap_ : inline_.data();
  }
  // With its length; one byte of that carries seven bits, and max_bytes needs no more than two.
  static constexpr std::size_t stored_size(std::string_view segment) noexcept {
    return segment.size() + (segment.size() < 0x80U ? 1U : 2U);
  }
  // Whether the bytes of one more segment fit; ignores max_depth.
  [[nodiscard]] constexpr bool has_room_for(std::string_view segment) const noexcept {
    return segment.size() <= max_bytes && size_ + stored_size(segment) <= max_bytes;
  }
  static Path from_typed(std::string_view text);
  static constexpr bool same_bytes(const char* a, const char* b, std::size_t size) noexcept;
  static constexpr std::uint64_t mix(std::uint64_t hash, std::string_view segment) noexcept;
  constexpr void take(Path& other) noexcept;
  constexpr char* grow(std::size_t extra, char*& outgrown);

  std::uint64_t hash_ = root_hash;
  std::uint32_t route_ = 0;
  std::uint16_t size_ = 0;
  std::uint8_t depth_ = 0;
  char* heap_ = nullptr;  // Owns when set; its capacity is the next power of two above size_.
  std::array<char, inline_bytes> inline_{};  // Zero behind size_: tables compare whole words.
};

// The segments of a path, outermost first: a view into it.
class Path::Segments {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;  // Its reference is a value.
    using iterator_concept = std::forward_iterator_tag;

    constexpr Iterator() noexcept = default;
    constexpr explicit Iterator(const char* at) noexcept : at_(at) {}
    constexpr std::string_view operator*() const noexcept { return segment(); }
    constexpr Iterator& operator++() noexcept {
      const std::string_view current = segment();
      at_ = current.data() + current.size();
      return *this;
    }
    constexpr Iterator operator++(int) noexcept {
      Iterator old = *this;
      ++*this;
      return old;
    }
    friend constexpr bool operator==(const Iterator&, const Iterator&) = default;

   private:
    [[nodiscard]] constexpr std::string_view segment() const noexcept {
      std::size_t size = static_cast<unsigned char>(*at_);
      if (size < 0x80U) return {at_ + 1, size};
      size = (size & 0x7fU) | (static_cast<std::size_t>(static_cast<unsigned char>(at_[1])) << 7U);
      return {at_ + 2, size};
    }
    const char* at_ = nullptr;
  };

  constexpr Segments(std::string_view bytes) noexcept
      : first_(bytes.data()), last_(bytes.data() + bytes.size()) {}
  [[nodiscard]] constexpr Iterator begin() const noexcept { return Iterator{first_}; }
  [[nodiscard]] constexpr Iterator end() const noexcept { return Iterator{last_}; }

 private:
  const char* first_;
  const char* last_;
};

constexpr Path::Segments Path::segments() const noexcept { return Segments{bytes()}; }

constexpr bool Path::same_bytes(const char* a, const char* b, std::size_t size) noexcept {
  if consteval {
    return std::string_view{a, size} == std::string_view{b, size};
  } else {
    return std::memcmp(a, b, size) == 0;
  }
}

// Multiply and fold, eight bytes at a time. The length is hashed first, so that moving a byte from
// one segment to the next changes the hash. Not keyed: tables compare paths in full, so a collision
// costs only time.
constexpr std::uint64_t Path::mix(std::uint64_t hash, std::string_view segment) noexcept {
  __extension__ using Wide = unsigned __int128;
  constexpr auto fold = [](std::uint64_t a, std::uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  };
  hash ^= (segment.size() + 1) * 0xff51afd7ed558ccdU;
  for (std::size_t i = 0; i < segment.size(); i += 8) {
    const std::size_t count = std::min<std::size_t>(8, segment.size() - i);
    std::uint64_t chunk = 0;
    for (std::size_t k = 0; k < count; ++k) {
      chunk |= static_cast<std::uint64_t>(static_cast<unsigned char>(segment[i + k])) << (8 * k);
    }
    hash = fold(hash ^ chunk, 0xd6e8feb86659fd93U);
  }
  return fold(hash, 0xa0761d6478bd642fU);
}

constexpr Path::Path(const Path& other)
    : hash_(other.hash_), route_(other.route_), depth_(other.depth_) {
  if (other.heap_ == nullptr) {
    inline_ = other.inline_;
  } else {
    char* outgrown = nullptr;
    std::ranges::copy(other.bytes(), grow(other.size_, outgrown));
  }
  size_ = other.size_;
}

constexpr void Path::take(Path& other) noexcept {
  hash_ = std::exchange(other.hash_, root_hash);
  route_ = std::exchange(other.route_, 0);
  size_ = std::exchange(other.size_, 0);
  depth_ = std::exchange(other.depth_, 0);
  heap_ = std::exchange(other.heap_, nullptr);
  inline_ = std::exchange(other.inline_, {});
}

constexpr Path& Path::operator=(const Path& other) {
  if (this != &other) *this = Path{other};
  return *this;
}

constexpr Path& Path::operator=(Path&& other) noexcept {
  if (this != &other) {
    delete[] heap_;
    take(other);
  }
  return *this;
}

// Makes room for `extra` more bytes at the end and returns a pointer to it. The caller deletes
// `outgrown` after it has copied the new bytes, which may be in there.
constexpr char* Path::grow(std::size_t extra, char*& outgrown) {
  const std::size_t needed = size_ + extra;
  if (needed <= inline_bytes) return inline_.data() + size_;
  const auto capacity = [](std::size_t size) {
    std::size_t power = 64;
    while (power < size) power *= 2;
    return power;
  };
  if (heap_ == nullptr || capacity(size_) < needed) {
    auto* larger = new char[capacity(needed)];
    std::ranges::copy(bytes(), larger);
    outgrown = std::exchange(heap_, larger);
  }
  return heap_ + size_;
}

constexpr Path& Path::append(std::string_view segment) {
  if (depth_ == max_depth) throw BadRequest("path has more than 64 segments: use fewer levels");
  if (!has_room_for(segment)) {
    throw BadRequest("path is longer than 4096 bytes: replace the long part by a hash");
  }
  const std::uint64_t hash = mix(hash_, segment);
  char* outgrown = nullptr;
  const std::size_t stored = stored_size(segment);
  char* at = grow(stored, outgrown);
  if (stored == segment.size() + 2) {
    *at++ = static_cast<char>(0x80U | (segment.size() & 0x7fU));
    *at++ = static_cast<char>(segment.size() >> 7U);
  } else {
    *at++ = static_cast<char>(segment.size());
  }
  std::ranges::copy(segment, at);
  delete[] outgrown;
  size_ = static_cast<std::uint16_t>(size_ + stored);
  ++depth_;
  hash_ = hash;
  if (depth_ <= 2) route_ = static_cast<std::uint32_t>(hash);
  return *this;
}

template <class Arg>
constexpr Path& Path::append_value(const Arg& arg) {
  static_assert(!std::same_as<Arg, bool> && !std::same_as<Arg, char> &&
                    !std::same_as<Arg, wchar_t> && !std::same_as<Arg, char8_t> &&
                    !std::same_as<Arg, char16_t> && !std::same_as<Arg, char32_t>,
                "a bool or a char cannot be a path segment: pass a string or an integer");
  if constexpr (AppendsToPath<Arg>) {
    append_to(*this, arg);
  } else if constexpr (std::integral<Arg>) {
    std::array<char, 40> digits{};  // Enough for 128 bits, which some compilers call integral.
    auto* at = digits.data() + digits.size();
    auto rest = arg;
    do {
      const auto digit = static_cast<int>(rest % 10);
      *--at = static_cast<char>('0' + (digit < 0 ? -digit : digit));
      rest = static_cast<Arg>(rest / 10);
    } while (rest != 0);
    if (arg < 0) *--at = '-';
    append({at, static_cast<std::size_t>(digits.data() + digits.size() - at)});
  } else if constexpr (std::is_enum_v<Arg>) {
    append_value(+static_cast<std::underlying_type_t<Arg>>(arg));  // + makes a char a number.
  } else if constexpr (std::same_as<Arg, Uuid>) {
    append(arg.text());
  } else if constexpr (requires { arg.lexically_normal().native(); }) {
    std::string text = arg.lexically_normal().native();
    if (text.size() > 1 && text.back() == '/') text.pop_back();
    append(text);
  } else {
    static_assert(std::convertible_to<const Arg&, std::string_view>,
                  "not a path segment: define append_to(tenure::Path&, const T&) beside the type");
    append(std::string_view{arg});
  }
  return *this;
}

template <class... Args>
constexpr Path Path::of(const Args&... args) {
  Path path;
  (path.append_value(args), ...);
  return path;
}

constexpr Path Path::prefix(std::size_t depth) const {
  if (depth >= depth_) return *this;
  Path path;
  for (const std::string_view segment : segments()) {
    if (path.depth() == depth) break;
    path.append(segment);
  }
  return path;
}

constexpr std::strong_ordering operator<=>(const Path& a, const Path& b) noexcept {
  const auto left = a.segments();
  const auto right = b.segments();
  return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(),
                                                right.end());
}

constexpr Path operator/(Path a, const Path& b) {
  for (const std::string_view segment : b.segments()) a.append(segment);
  return a;
}

}  // namespace tenure

template <>
struct std::hash<tenure::Path> {
  std::size_t operator()(const tenure::Path& path) const noexcept { return path.hash(); }
};

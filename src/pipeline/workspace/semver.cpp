#include "pipeline/workspace/semver.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tenure::pipeline {
namespace {

constexpr std::size_t max_range = 4096;

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Letters, digits, - and dots.
bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.';
  });
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  if (!is_number(text)) return std::nullopt;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  // One is added to some of them.
  if (parsed.ec != std::errc{} || number > (1ULL << 53U)) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// 1, 1.2, 1.x, *: how many numbers are given.
struct Partial {
  Version version;
  std::size_t given = 0;
};

std::optional<Partial> parse_partial(std::string_view text) {
  if (text.starts_with('v') || text.starts_with('=')) text.remove_prefix(1);
  // Build metadata does not count.
  const std::size_t plus = text.find('+');
  if (plus != std::string_view::npos && !is_identifier(text.substr(plus + 1))) return std::nullopt;
  text = text.substr(0, plus);
  const std::size_t dash = text.find('-');
  Partial out;
  const std::vector<std::string_view> numbers = split(text.substr(0, dash), '.');
  if (numbers.size() > 3) return std::nullopt;
  bool open = false;
  for (const std::string_view part : numbers) {
    if (part == "x" || part == "X" || part == "*") {
      open = true;
      continue;
    }
    const auto number = number_of(part);
    if (!number || open) return std::nullopt;
    out.version.numbers.at(out.given++) = *number;
  }
  if (dash == std::string_view::npos) return out;
  if (out.given != 3) return std::nullopt;
  for (const std::string_view part : split(text.substr(dash + 1), '.')) {
    if (!is_identifier(part) || part.contains('.')) return std::nullopt;
    out.version.prerelease.emplace_back(part);
  }
  return out;
}

struct Comparator {
  enum class Kind : std::uint8_t { less, less_or_equal, equal, greater_or_equal, greater };
  Kind kind;
  Version version;

  [[nodiscard]] bool includes(const Version& other) const {
    const std::weak_ordering order = other <=> version;
    switch (kind) {
      case Kind::less: return order < 0;
      case Kind::less_or_equal: return order <= 0;
      case Kind::equal: return order == 0;
      case Kind::greater_or_equal: return order >= 0;
      case Kind::greater: return order > 0;
    }
    return false;
  }
};
using Comparators = std::vector<Comparator>;
using Kind = Comparator::Kind;

// The first version above all that begin with these numbers; -0 is the lowest prerelease.
Version next_after(const Version& version, std::size_t given) {
  Version next;
  for (std::size_t i = 0; i < given; ++i) next.numbers.at(i) = version.numbers.at(i);
  ++next.numbers.at(given - 1);
  next.prerelease = {"0"};
  return next;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as every range.
void add_between(Comparators& out, const Version& from, const Version& before) {
  out.push_back({.kind = Kind::greater_or_equal, .version = from});
  out.push_back({.kind = Kind::less, .version = before});
}

// How many numbers ^ keeps: up to the first that is not 0.
std::size_t kept_by_caret(const Partial& partial) {
  for (std::size_t i = 0; i < partial.given; ++i) {
    if (partial.version.numbers.at(i) != 0) return i + 1;
  }
  return partial.given;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one case per operator.
bool add_simple(Comparators& out, std::string_view text) {
  const auto take = [&text](std::string_view sign) {
    if (!text.starts_with(sign)) return false;
    text.remove_prefix(sign.size());
    return true;
  };
  const bool caret = take("^");
  const bool tilde = !caret && (take("~>") || take("~"));
  const bool at_least = take(">=");
  const bool at_most = !at_least && take("<=");
  const bool above = !at_least && take(">");
  const bool below = !at_most && take("<");
  const std::optional<Partial> partial = parse_partial(text);
  if (!partial || ((caret || tilde) && (at_least || at_most || above || below))) return false;
  const Version& version = partial->version;
  const std::size_t given = partial->given;
  if (given == 0) {  // Any version; nothing is above or below all.
    if (above || below)
      out.push_back({.kind = Kind::less, .version = Version{.numbers = {}, .prerelease = {"0"}}});
    return true;
  }
  if (caret) {
    add_between(out, version, next_after(version, kept_by_caret(*partial)));
  } else if (tilde) {
    add_between(out, version, next_after(version, std::min<std::size_t>(given, 2)));
  } else if (at_least) {
    out.push_back({.kind = Kind::greater_or_equal, .version = version});
  } else if (below) {
    Version before = version;
    if (given < 3) before.prerelease = {"0"};
    out.push_back({.kind = Kind::less, .version = before});
  } else if (given < 3 && (at_most || above)) {
    out.push_back({.kind = at_most ? Kind::less : Kind::greater_or_equal,
                   .version = next_after(version, given)});
  } else if (at_most || above) {
    out.push_back({.kind = at_most ? Kind::less_or_equal : Kind::greater, .version = version});
  } else if (given < 3) {
    add_between(out, version, next_after(version, given));
  } else {
    out.push_back({.kind = Kind::equal, .version = version});
  }
  return true;
}

// Words, with an operator that stands alone joined to what follows: ">= 1" is ">=1".
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    const bool open =
        !words.empty() && words.back().find_first_not_of("<>=~^") == std::string::npos;
    if (open) {
      words.back() += word;
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

// One alternative of a range; null: it is none.
std::optional<Comparators> parse_alternative(std::string_view text) {
  Comparators out;
  const std::vector<std::string> words = words_of(text);
  if (words.size() == 3 && words[1] == "-") {
    const auto from = parse_partial(words[0]);
    if (!from || !add_simple(out, "<=" + words[2])) return std::nullopt;
    out.push_back({.kind = Kind::greater_or_equal, .version = from->version});
    return out;
  }
  for (const std::string& word : words) {
    if (!add_simple(out, word)) return std::nullopt;
  }
  return out;
}

bool includes_all(const Comparators& comparators, const Version& version) {
  if (!std::ranges::all_of(comparators,
                           [&](const Comparator& one) { return one.includes(version); })) {
    return false;
  }
  if (version.prerelease.empty()) return true;
  return std::ranges::any_of(comparators, [&](const Comparator& one) {
    return !one.version.prerelease.empty() && one.version.numbers == version.numbers;
  });
}

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
  const std::optional<Partial> partial = parse_partial(text);
  if (!partial || partial->given != 3 || text.starts_with('=')) return std::nullopt;
  return partial->version;
}

std::weak_ordering operator<=>(const Version& a, const Version& b) {
  if (const auto order = a.numbers <=> b.numbers; order != 0) return order;
  if (a.prerelease.empty() || b.prerelease.empty()) {  // A release is above its prereleases.
    return static_cast<int>(a.prerelease.empty()) <=> static_cast<int>(b.prerelease.empty());
  }
  for (std::size_t i = 0; i < std::min(a.prerelease.size(), b.prerelease.size()); ++i) {
    const auto left = number_of(a.prerelease[i]);
    const auto right = number_of(b.prerelease[i]);
    if (left && right && *left != *right) return *left <=> *right;
    if (left.has_value() != right.has_value()) {
      return static_cast<int>(right.has_value()) <=> static_cast<int>(left.has_value());
    }
    if (!left && a.prerelease[i] != b.prerelease[i]) return a.prerelease[i] <=> b.prerelease[i];
  }
  return a.prerelease.size() <=> b.prerelease.size();
}

std::optional<bool> range_includes(std::string_view range, const Version& version) {
  if (range.size() > max_range) return std::nullopt;
  bool any = false;
  for (;;) {
    const std::size_t at = range.find("||");
    const std::optional<Comparators> comparators = parse_alternative(range.substr(0, at));
    if (!comparators) return std::nullopt;
    any = any || includes_all(*comparators, version);
    if (at == std::string_view::npos) return any;
    range.remove_prefix(at + 2);
  }
}

}  // namespace tenure::pipeline

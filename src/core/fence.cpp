#include "tenure/fence.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "tenure/path.hpp"

namespace tenure {
namespace {

constexpr std::string_view version = "tenure-fence/1";

// Removes and returns everything up to the next space; removes the space too.
std::string_view take_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

// Decimal digits only, without leading zeros.
std::optional<Token> parse_token(std::string_view word) {
  Token token;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token.value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  if (word.size() > 1 && word.front() == '0') return std::nullopt;
  return token;
}

// One segment of a path's text, as the name of a group.
std::optional<std::string> parse_name(std::string_view word) {
  const auto path = Path::parse(word);
  if (!path || path->depth() != 1) return std::nullopt;
  const std::string_view name = *path->segments().begin();
  if (name.empty() || name.size() > Mode::max_name) return std::nullopt;
  return std::string{name};
}

std::unexpected<std::string> no_fence(std::string_view why) {
  return std::unexpected{"not a fence: " + std::string{why}};
}

}  // namespace

bool Fence::admit(Token token, const Mode& mode) {
  if (token == Token{} || token < exclusive_) return false;
  if (mode.is_exclusive()) {
    if (token < group_) return false;
    exclusive_ = token;
    return true;
  }
  if (mode.name() == name_) {
    if (token < other_) return false;
    group_ = std::max(group_, token);
    return true;
  }
  if (token < group_) return false;
  // This group now has the highest token, or an equal one; in the latter case either may count as
  // the other.
  other_ = group_;
  group_ = token;
  name_ = mode.name();
  return true;
}

std::string Fence::text() const {
  std::string text{version};
  for (const Token token : {exclusive_, group_, other_}) {
    text += ' ';
    text += std::to_string(token.value);
  }
  if (!name_.empty()) (text += ' ') += Path::of(name_).text();
  return text;
}

std::expected<Fence, std::string> Fence::parse(std::string_view text) {
  std::string_view rest = text;
  if (take_word(rest) != version) return no_fence("it does not begin with 'tenure-fence/1 '");
  std::array<Token, 3> tokens;
  for (Token& token : tokens) {
    const auto parsed = parse_token(take_word(rest));
    if (!parsed) return no_fence("the version must be followed by three decimal tokens");
    token = *parsed;
  }
  Fence fence;
  fence.exclusive_ = tokens[0];
  fence.group_ = tokens[1];
  fence.other_ = tokens[2];
  if (fence.group_ < fence.other_) return no_fence("the third token is larger than the second");
  if (fence.group_ != Token{}) {
    auto name = parse_name(rest);
    if (!name) return no_fence("the last word must be the name of a group, escaped as in a path");
    fence.name_ = *std::move(name);
  }
  // Rejects everything else: an additional space, a name without a token.
  if (fence.text() != text) return no_fence("it is not written as Fence::text() writes it");
  return fence;
}

}  // namespace tenure

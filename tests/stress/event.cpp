#include "tests/stress/event.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::stress {
namespace {

constexpr std::array<std::pair<Event::Kind, std::string_view>, 9> kinds = {{
    {Event::Kind::asked, "asked"},
    {Event::Kind::granted, "granted"},
    {Event::Kind::until, "until"},
    {Event::Kind::narrowed, "narrowed"},
    {Event::Kind::lost, "lost"},
    {Event::Kind::leaving, "leaving"},
    {Event::Kind::left, "left"},
    {Event::Kind::refused, "refused"},
    {Event::Kind::evicting, "evicting"},
}};

// Removes and returns the next word; empty: there is none.
std::string_view next_word(std::string_view& text, char end = ' ') {
  const std::size_t at = text.find(end);
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return word;
}

template <class T>
bool read(std::string_view word, T& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

}  // namespace

std::string text(const Claim& claim) {
  std::string out = claim.path.text() + '=';
  out += claim.mode.is_exclusive() ? std::string_view{"exclusive"} : claim.mode.name();
  if (claim.mode.limit() != 0) out += ':' + std::to_string(claim.mode.limit());
  if (claim.mode.weight() != 1) out += ':' + std::to_string(claim.mode.weight());
  return out;
}

std::optional<Claim> parse_claim(std::string_view text) {
  auto path = Path::parse(next_word(text, '='));
  if (!path.has_value()) return std::nullopt;
  const std::string_view name = next_word(text, ':');
  if (name.empty()) return std::nullopt;
  if (text.empty()) return name == "exclusive" ? path->exclusive() : path->group(name);
  std::uint32_t limit = 0;
  std::uint32_t weight = 1;
  if (!read(next_word(text, ':'), limit) || limit == 0) return std::nullopt;
  if (!text.empty() && (!read(text, weight) || weight == 0 || weight > limit)) return std::nullopt;
  return path->group(name, limit).take(weight);
}

std::string line(const Event& event) {
  std::string out = std::to_string(event.time) + ' ' + std::to_string(event.thread) + ' ' +
                    std::to_string(event.request) + ' ';
  for (const auto& [kind, name] : kinds) {
    if (kind == event.kind) out += name;
  }
  out += ' ' + std::to_string(event.a) + ' ' + std::to_string(event.b) + ' ';
  out += event.word.empty() ? "-" : event.word;
  for (const Claim& claim : event.claims) out += ' ' + text(claim);
  out += '\n';
  return out;
}

std::optional<Event> parse_event(std::string_view line) {
  Event event;
  if (!read(next_word(line), event.time) || !read(next_word(line), event.thread) ||
      !read(next_word(line), event.request)) {
    return std::nullopt;
  }
  const std::string_view kind = next_word(line);
  bool known = false;
  for (const auto& [value, name] : kinds) {
    if (name != kind) continue;
    event.kind = value;
    known = true;
  }
  if (!known || !read(next_word(line), event.a) || !read(next_word(line), event.b)) {
    return std::nullopt;
  }
  event.word = next_word(line);
  while (!line.empty()) {
    std::optional<Claim> claim = parse_claim(next_word(line));
    if (!claim.has_value()) return std::nullopt;
    event.claims.push_back(*std::move(claim));
  }
  return event;
}

Log::Log(const std::string& path)
    : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw Error("can't open the log " + path);
}

Log::~Log() { ::close(fd_); }

void Log::write(std::string_view text) const noexcept {
  if (::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  std::fputs("a line of the log could not be written: is the disk full?\n", stderr);
  std::abort();
}

}  // namespace tenure::stress

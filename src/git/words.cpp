#include "git/words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <span>

namespace tenure::git {
namespace {

constexpr std::size_t max_essence = 1000;

bool has_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return text.contains(part); });
}

template <class Each>
void for_each_line(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The last column of the line of a ref that was not updated: "[rejected] (stale info)".
std::optional<std::string_view> rejection(std::string_view output) {
  std::optional<std::string_view> found;
  for_each_line(output, [&found](std::string_view line) {
    if (!line.starts_with("!\t")) return;
    const std::size_t tab = line.rfind('\t');
    if (tab > 1) found = line.substr(tab + 1);
  });
  return found;
}

constexpr std::array<std::string_view, 4> moved_here{
    "[rejected] (stale info)", "[rejected] (fetch first)", "[rejected] (non-fast-forward)",
    "[rejected] (remote ref updated since checkout)"};
// Of servers; some say it in the line of the ref, others only on standard error.
constexpr std::array<std::string_view, 6> moved_there{"but expected",
                                                      "incorrect old value provided",
                                                      "unable to resolve reference",
                                                      "reference already exists",
                                                      "(stale info)",
                                                      "(fetch first)"};
constexpr std::array<std::string_view, 3> no_answer{
    "[remote failure]", "remote failed to report status", "failed to report status"};

bool is_trailer(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  if (line.size() < colon + 2 || line[colon + 1] != ' ') return false;
  return std::ranges::all_of(line.substr(0, colon), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
}

// Whether the text ends with a paragraph of trailers that is not its first.
bool ends_with_trailers(std::string_view text) {
  const std::size_t blank = text.rfind("\n\n");
  if (blank == std::string_view::npos) return false;
  bool all = true;
  for_each_line(text.substr(blank + 2), [&all](std::string_view line) {
    all = all && (is_trailer(line) || line.starts_with(' '));
  });
  return all;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): see the declaration.
PushVerdict read_push(int status, std::string_view output, std::string_view errors) {
  if (status == 0) return {.result = PushResult::pushed};
  const std::optional<std::string_view> line = rejection(output);
  const Problem problem = problem_in(errors);
  if (!line || has_any(*line, no_answer)) {
    return {.result = PushResult::unknown, .problem = problem};
  }
  if (has_any(*line, moved_here) || has_any(*line, moved_there)) {
    return {.result = PushResult::moved, .problem = Problem::branch_moved};
  }
  if (line->contains("failed to update ref") || line->contains("cannot lock ref")) {
    const bool exists = line->contains("File exists") || errors.contains("File exists");
    if (exists) return {.result = PushResult::locked, .problem = Problem::locked};
    if (has_any(errors, moved_there)) {
      return {.result = PushResult::moved, .problem = Problem::branch_moved};
    }
  }
  const bool full = problem == Problem::disk_full || says_disk_full(*line);
  return {.result = PushResult::refused, .problem = full ? Problem::disk_full : Problem::refused};
}

bool says_disk_full(std::string_view text) {
  static constexpr std::array<std::string_view, 3> words{"No space left on device",
                                                         "Disk quota exceeded", "disk full"};
  return has_any(text, words);
}

Problem problem_in(std::string_view errors) {
  static constexpr std::array<std::string_view, 13> refusals{
      "Permission denied",
      "Read-only file system",
      "Authentication failed",
      "could not read Username",
      "could not read Password",
      "The requested URL returned error: 401",
      "The requested URL returned error: 403",
      "access denied",
      "Access denied",
      "not authorized",
      "hook declined",
      "insufficient permission",
      "service not enabled"};
  static constexpr std::array<std::string_view, 2> hooks{"hook exited with", "gpg failed to sign"};
  if (says_disk_full(errors)) return Problem::disk_full;
  if (errors.contains("couldn't find remote ref")) return Problem::branch_missing;
  if (errors.contains(".lock': File exists")) return Problem::locked;
  if (has_any(errors, hooks)) return Problem::rejected_here;
  if (has_any(errors, refusals)) return Problem::refused;
  return Problem::failed;
}

std::string essence(std::string_view errors) {
  std::string out;
  for_each_line(errors, [&out](std::string_view line) {
    while (!line.empty() && line.ends_with(' ')) line.remove_suffix(1);
    // "remote:" lines end with blanks, so that they overwrite progress.
    const bool noise = line.empty() || line == "remote:" || line.starts_with("hint:") ||
                       line.starts_with("To ") || line == "Done";
    if (noise || out.size() > max_essence) return;
    if (!out.empty()) out += "; ";
    out += line;
  });
  if (out.size() > max_essence) out.resize(max_essence);
  return out.empty() ? "git gave no reason" : out;
}

std::string with_token(std::string_view message, Token token) {
  while (!message.empty() && std::isspace(static_cast<unsigned char>(message.back())) != 0) {
    message.remove_suffix(1);
  }
  std::string out{message};
  out += ends_with_trailers(message) ? "\n" : "\n\n";
  return out + "Tenure-Token: " + std::to_string(token.value) + "\n";
}

std::optional<std::filesystem::path> local_path(std::string_view remote) {
  constexpr std::string_view file = "file://";
  if (remote.starts_with(file)) return std::filesystem::path{remote.substr(file.size())};
  if (remote.contains("://")) return std::nullopt;
  // "host:path" is ssh, unless a slash comes before the colon. "transport::address" is a helper.
  const std::size_t colon = remote.find(':');
  if (colon != std::string_view::npos && remote.find('/') > colon) return std::nullopt;
  return std::filesystem::path{remote};
}

std::string shown_remote(std::string_view remote) {
  const std::size_t scheme = remote.find("://");
  if (scheme == std::string_view::npos) return std::string{remote};
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(remote.find('/', begin), remote.size());
  const std::string_view authority = remote.substr(begin, end - begin);
  const std::size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return std::string{remote};
  const std::size_t colon = authority.substr(0, at).find(':');
  // Tokens are given as user names, too.
  const bool ssh = remote.starts_with("ssh://") || remote.starts_with("git+ssh://");
  const std::string_view user = ssh ? authority.substr(0, std::min(colon, at)) : "";
  return std::string{remote.substr(0, begin)} + std::string{user} + (user.empty() ? "" : "@") +
         std::string{authority.substr(at + 1)} + std::string{remote.substr(end)};
}

std::string canonical_remote(std::string_view remote) {
  std::string out = shown_remote(remote);
  if (const auto path = local_path(remote)) {
    std::error_code ignored;
    const auto real = std::filesystem::weakly_canonical(std::filesystem::absolute(*path), ignored);
    out = ignored ? std::filesystem::absolute(*path).lexically_normal().string() : real.string();
  }
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  if (out.ends_with(".git") && out.size() > 4 && out[out.size() - 5] != '/') {
    out.resize(out.size() - 4);
  }
  return out;
}

void check_branch_name(std::string_view branch) {
  static constexpr std::array<std::string_view, 5> forbidden{"..", "@{", "//", "/.", ".lock/"};
  const bool bad_byte = std::ranges::any_of(branch, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || std::string_view{"\x7f~^:?*[\\"}.contains(c);
  });
  if (branch.empty() || bad_byte || has_any(branch, forbidden) || branch == "@" ||
      branch.starts_with('-') || branch.starts_with('/') || branch.starts_with('.') ||
      branch.ends_with('/') || branch.ends_with('.') || branch.ends_with(".lock")) {
    throw BadRequest("'" + std::string{branch} +
                     "' is not the name of a branch: give it as 'git branch' lists it");
  }
}

}  // namespace tenure::git

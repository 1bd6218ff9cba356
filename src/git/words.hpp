// words.hpp: what git and servers said, and what that means. Pure functions on text.
//
// `git push --porcelain` reports one line per ref; everything else is prose on standard error, some
// of it the server's. Only what certainly means "the branch has moved" is retried.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tenure/git.hpp"
#include "tenure/ticket.hpp"

namespace tenure::git {

enum class PushResult : std::uint8_t {
  pushed,
  moved,    // The branch has another head than we expected: a lost race.
  locked,   // The remote's lock file of the branch exists: a race, or a stale file.
  refused,  // The remote, or a hook, does not want it.
  unknown,  // The connection failed: it may have been pushed.
};

struct PushVerdict {
  PushResult result = PushResult::unknown;
  Problem problem = Problem::failed;  // What to report if it is not retried.
};

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): output first, errors second, as always.
[[nodiscard]] PushVerdict read_push(int status, std::string_view output, std::string_view errors);

// What kind of problem the words of a failed git are about; `failed` where they fit none.
[[nodiscard]] Problem problem_in(std::string_view errors);
[[nodiscard]] bool says_disk_full(std::string_view text);

// The lines that say what is wrong, without hints and progress, in one line. At most 1,000 bytes.
[[nodiscard]] std::string essence(std::string_view errors);

// The message with the trailer "Tenure-Token: N", in the trailer block that it has, if any.
[[nodiscard]] std::string with_token(std::string_view message, Token token);

// The path of a remote on this machine; nothing for one that needs a connection.
[[nodiscard]] std::optional<std::filesystem::path> local_path(std::string_view remote);

// One text for the spellings of a remote: no password, no slash or ".git" at the end, an absolute
// path.
[[nodiscard]] std::string canonical_remote(std::string_view remote);
// For messages: without passwords.
[[nodiscard]] std::string shown_remote(std::string_view remote);

// Throws BadRequest for a text that git does not accept as the name of a branch.
void check_branch_name(std::string_view branch);

}  // namespace tenure::git

// Any bytes as what git, a server or a hook said, and as messages, remotes and branches.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "git/settings.hpp"
#include "git/words.hpp"

namespace {

using namespace tenure::git;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "git_fuzz: " << what << '\n';
  std::abort();
}

void read_answers(std::string_view output, std::string_view errors) {
  const PushVerdict verdict = read_push(1, output, errors);
  require(verdict.result != PushResult::pushed, "a failed push that was accepted");
  require(
      verdict.result == PushResult::moved || verdict.problem != tenure::git::Problem::branch_moved,
      "only a moved branch is a lost race");
  require(essence(errors).size() <= 1000, "an essence that is too long");
  require(!essence(errors).empty(), "no essence");
  (void)problem_in(errors);
}

void read_settings_and_names(std::string_view text) {
  const UserSettings settings = parse_settings(text);
  require(settings.core.starts_with("[core]\n"), "no section");
  try {
    (void)parse_identity(text);
  } catch (const GitError&) {  // Expected for most texts.
  }
  try {
    check_branch_name(text);
    require(!text.contains('\n') && !text.contains(' ') && !text.starts_with('-'),
            "a branch that git would misread");
  } catch (const tenure::BadRequest&) {  // Expected for most texts.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const std::string_view view = text;
  const std::size_t half = size / 2;
  read_answers(view.substr(0, half), view.substr(half));
  read_answers("!\ta:b\t" + text, view);
  read_settings_and_names(view);
  const std::string message = with_token(view, tenure::Token{42});
  require(message.ends_with("\nTenure-Token: 42\n"), "a message without its trailer");
  require(shown_remote(shown_remote(view)) == shown_remote(view), "shown twice, it differs");
  (void)local_path(view);
  return 0;
}

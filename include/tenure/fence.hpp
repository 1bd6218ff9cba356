// fence.hpp: a value that your own resource stores, so that a holder that has lost its lock without
// noticing can't write to the resource any more.
//
//   if (!fence.admit(hold.token(), Mode::exclusive())) return refused;  // And save fence.text().
//
// A token is refused if the fence has seen a larger one in a mode that excludes its own: the larger
// one was granted later, so the lock of the smaller one had been released or taken away by then.
// Tokens whose modes do not exclude each other pass in any order, and a holder passes any number of
// times.
//
//   seen \ asks   | exclusive, smaller | group g, smaller
//   --------------+--------------------+-----------------
//   exclusive     | refused            | refused
//   group g       | refused            | passes
//   another group | refused            | refused
//
// Limits. The members of one group do not exclude each other, so a member of a limited group
// (`permits(n)`) that has lost its lock passes although another member has replaced it. For such
// groups, use Hold::guard() in a transaction of the store.
//
// Invariants
//   1. A refusal leaves the fence unchanged.
//   2. A token that was refused is refused again.
//   3. A text has one fence and a fence one text, of one line.
//
// Thread safety: a value. Ask, write and save under one lock of the resource's own.
#pragma once

#include <compare>
#include <expected>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

class Fence {
 public:
  // The mode that the token's ticket has on what the fence is for. A token of zero, which is none,
  // is always refused.
  [[nodiscard]] bool admit(Token token, const Mode& mode);

  // "tenure-fence/1 12 45 30 shared": version, highest exclusive token, highest token of any group,
  // highest of all other groups, and the name of the one that has it, escaped as in a path.
  [[nodiscard]] std::string text() const;
  // Parses what text() returns; for any other text, the error says what is wrong.
  [[nodiscard]] static std::expected<Fence, std::string> parse(std::string_view text);

  friend bool operator==(const Fence&, const Fence&) = default;

 private:
  // Three numbers and one name are enough, however many groups there are: a token belongs to the
  // group that has the highest token, or to a group that must not be below it. No group has a token
  // above group_, so it does not matter which group has other_.
  Token exclusive_;
  Token group_;
  Token other_;
  std::string name_;  // Whose group_ is; empty: nobody's, and group_ and other_ are zero.
};

}  // namespace tenure

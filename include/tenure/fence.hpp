// fence.hpp: what a resource of your own keeps, so that a holder who has lost its lock without
// noticing can't write to it any more.
//
//   if (!fence.admit(hold.token(), Mode::exclusive())) return refused;  // And save fence.text().
//
// A token is refused when the fence has seen a larger one in a mode that excludes its own: that one
// was granted later, so the smaller one's lock had been given back or taken away by then. What does
// not exclude each other passes in any order, and a holder passes as often as it likes.
//
//   seen \ asks   | exclusive, smaller | group g, smaller
//   --------------+--------------------+-----------------
//   exclusive     | refused            | refused
//   group g       | refused            | passes
//   another group | refused            | refused
//
// What it can't do: the members of one group do not exclude each other, so a lost member of a
// limited group (`permits(n)`) passes although another has its place by now. There only
// Hold::guard() in the store's own transaction fences.
//
// Invariants
//   1. It has seen nothing that it refused: a refusal leaves it unchanged.
//   2. What is refused stays refused.
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
  // Takes what text() gives and nothing else; otherwise says what is wrong.
  [[nodiscard]] static std::expected<Fence, std::string> parse(std::string_view text);

  friend bool operator==(const Fence&, const Fence&) = default;

 private:
  // Three numbers and one name are enough, however many groups there are: who asks belongs to the
  // group that has the highest token, or to one of those that must not be below it. No number is
  // ever larger for a group than group_, so which group has other_ does not matter.
  Token exclusive_;
  Token group_;
  Token other_;
  std::string name_;  // Whose group_ is; empty: nobody's, and group_ and other_ are zero.
};

}  // namespace tenure

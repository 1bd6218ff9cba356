// proposer.hpp: decides what one apply proposes to etcd, what it relies on, and when it gives up.
//
// An appended key ends in the revision of its own apply, and etcd can't put its own revision into a
// key. So revisions are ours: the client proposes one, and the transaction commits only if the
// heads of its orders (scope.hpp) still have smaller revisions, which the proposed one then
// replaces. A Proposal has one of four shapes; form.hpp turns each into a request and reads its
// answer.
//
//   shape         | when                                            | the heads of its orders
//   --------------+-------------------------------------------------+-----------------------------
//   read          | the apply writes nothing                        | stay
//   one_head      | no other client writes there, it is a batch, or | move to a number by the clock
//                 | is in several orders                            |
//   several_heads | other clients write there at the same time      | move to the first free number
//   sole_writer   | this process put the head, and the apply only   | move to a number by the clock
//                 | appends or removes                              |
//
// With several heads in one request a race costs no round trip, as long as other clients get no
// further than the last. A sole writer leaves out reads of ranges that it knows to be empty.
//
// Why this is sound: etcd runs transactions one after the other, and each one that writes raises
// the heads of its orders to its number, which was larger than each of them. So within an order
// revisions rise in the order of commits, and a larger stamp is a later commit: FIFO. A ticket on /
// is compared with the heads of all roots, and moves the head of top_order, with which every
// ticket is compared: it is later than all before it, in any root, and earlier than all after it.
// numbers.hpp says why no number is used twice. Nothing depends on correct clocks except the number
// of attempts. Of the clients that race, the first always commits; a client that keeps failing
// proposes further ahead each time, so a slow client commits too.
//
// A Proposer does no I/O: time comes from the Clock that it is given.
//
// Thread safety: a Proposer belongs to one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "store/etcd/clock.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/orders.hpp"
#include "store/etcd/scope.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

enum class Shape : std::uint8_t { read, one_head, several_heads, sole_writer };

struct Proposal {
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  Shape shape = Shape::read;
  // Heads to propose, in rising order. A batch takes as many numbers as it has transactions, and
  // proposes the last.
  std::vector<std::uint64_t> heads{};
  std::optional<SoleWriter::Use> own{};  // sole_writer: the head must be this one.
  // The first of the heads that it moves. Once that head has reached the last of `heads`, the
  // transaction can't commit any more.
  OrderId order = other_order;
  Instant time{};  // No other request has the same: it identifies this one in the heads.
  // NOLINTEND(readability-redundant-member-init)
};

// What became of a request.
enum class Verdict : std::uint8_t {
  committed,
  refused,        // A guard does not hold.
  outrun,         // Another client moved a head past all proposed ones.
  key_changed,    // A key is not as this process remembered it; the answer has its new state.
  guard_unclear,  // A guard on a quiet range may hold all the same: ask again.
  head_not_ours,  // Another client moved the head, or a guard does not hold: use another shape.
  no_head,        // There is no such head yet.
};

// What a transaction needs, as far as it decides what to propose.
struct Needs {
  bool writes = false;
  bool only_appends = false;     // It puts no key that may exist already.
  std::size_t transactions = 1;  // More than one: a batch.
  std::size_t max_heads = 1;     // How many heads fit into one request.
  Scope scope{};                 // NOLINT(readability-redundant-member-init)
};

// For tests and benchmarks: counts of applies that write.
struct Counts {
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> round_trips{0};
  std::atomic<std::uint64_t> head_not_ours{0};
};

class Proposer {
 public:
  static constexpr int max_attempts = 10'000;
  static constexpr int max_resolved = 3;  // Lost answers of one apply.

  // The state that all applies of a process share.
  struct Shared {
    Clock& clock;
    Orders& orders;
    Counts& counts;
  };
  explicit Proposer(const Shared& shared) noexcept : shared_(shared) {}

  // Begins an attempt; false: this apply gives up.
  [[nodiscard]] bool next_attempt() noexcept { return attempts_++ < max_attempts; }

  [[nodiscard]] Proposal propose(const Needs& needs, const Txn& txn);

  enum class Next : std::uint8_t { finish, retry, make_head };
  // `at`: the revision of a commit.
  [[nodiscard]] Next judge(Verdict verdict, const Proposal& proposal, Revision at);

  // Whether to find out what became of a request without an answer, and go on; false: the caller is
  // told that the outcome is unknown.
  [[nodiscard]] bool may_resolve() noexcept { return resolved_++ < max_resolved; }

 private:
  [[nodiscard]] bool rely_on_own_head(const Needs& needs, const Txn& txn, Proposal& proposal);
  void add_heads(const Needs& needs, Proposal& proposal);
  // Slots.
  [[nodiscard]] std::uint64_t by_time(const Scope& scope);
  [[nodiscard]] std::uint64_t far_ahead(const Scope& scope);
  void count(Verdict verdict, const Proposal& proposal, Revision at);

  const Shared shared_;
  int attempts_ = 0;
  int resolved_ = 0;
  unsigned outrun_ = 0;
};

}  // namespace tenure::etcd

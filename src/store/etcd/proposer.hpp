// proposer.hpp: decides what one apply proposes to etcd, what it relies on, and when it gives up.
//
// An appended key ends in the revision of its own apply, and etcd can't put its own revision into a
// key. So revisions are ours: the client proposes one, and the transaction commits only if the head
// (one key) still has a smaller revision, which the proposed one then replaces. A Proposal has one
// of five shapes; form.hpp turns each into a request and reads its answer.
//
//   shape         | when                                          | the head
//   --------------+-----------------------------------------------+------------------------------
//   read          | the apply writes nothing                      | stays
//   remove        | it only removes, and the head is young        | stays; the tail is put
//   one_head      | no other client writes, or it is a batch      | moves to a number by the clock
//   several_heads | other clients write at the same time          | moves to the first free number
//   sole_writer   | this process put the head, and the apply only | moves to a number by the clock,
//                 | appends or removes                            | or stays, and the tail is put
//
// With several heads in one request a race costs no round trip, as long as other clients get no
// further than the last. A sole writer leaves out reads of ranges that it knows to be empty.
//
// Why this is sound: etcd runs transactions one after the other, and each one that puts a key
// raises the head; one that only removes has a number of its own between two heads (numbers.hpp).
// So revisions rise in the order of commits, no two are the same, and a larger stamp is a later
// commit: FIFO. Nothing depends on correct clocks except the number of attempts. Of the clients
// that race, the first always commits; a client that keeps failing proposes further ahead each
// time, so a slow client commits too.
//
// A Proposer does no I/O: time comes from the Clock that it is given.
//
// Thread safety: a Proposer belongs to one thread; Contention is safe to share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "store/etcd/clock.hpp"
#include "store/etcd/layout.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

enum class Shape : std::uint8_t { read, remove, one_head, several_heads, sole_writer };

struct Proposal {
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  Shape shape = Shape::read;
  // Heads to propose, in rising order. A batch takes as many numbers as it has transactions, and
  // proposes the last.
  std::vector<std::uint64_t> heads{};
  std::optional<SoleWriter::Use> own{};  // sole_writer: the head must be this one.
  std::int64_t oldest = 0;  // remove: the head must have been put after this revision of etcd's.
  // Once the head has reached this, the transaction can't commit any more.
  std::uint64_t last = 0;
  Instant time{};  // No other request has the same: it identifies this one in the head or the tail.
  // NOLINTEND(readability-redundant-member-init)
};

// What became of a request.
enum class Verdict : std::uint8_t {
  committed,
  refused,        // A guard does not hold.
  outrun,         // Another client moved the head past all proposed ones.
  head_too_old,   // The head is too old for a removal: it must move the head.
  key_changed,    // A key is not as this process remembered it; the answer has its new state.
  guard_unclear,  // A guard on a quiet range may hold all the same: ask again.
  head_not_ours,  // Another client moved the head, or a guard does not hold: use another shape.
  no_head,        // The store has no head yet.
};

// What a transaction needs, as far as it decides what to propose.
struct Needs {
  bool writes = false;
  bool puts = false;             // It puts a key, so it moves the head.
  bool only_appends = false;     // It puts no key that may exist already.
  std::size_t transactions = 1;  // More than one: a batch.
  std::size_t max_heads = 1;     // How many heads fit into one request.
};

// How much other clients put at the same time, as far as the applies of this process have noticed.
class Contention {
 public:
  static constexpr std::size_t max_reach = 64;

  // Other clients put at the same time, or did so during the last 64 commits.
  [[nodiscard]] bool racing() const noexcept { return race_.load() > 0; }
  // By how many heads other clients get ahead during one round trip.
  [[nodiscard]] std::size_t reach() const noexcept { return reach_.load(); }
  // How many heads the clock passes during one round trip.
  [[nodiscard]] std::uint64_t heads_per_round_trip() const noexcept;

  void took(std::int64_t round_trip_ns) noexcept;
  void was_outrun() noexcept;
  // `ahead`: the distance of the committed head from the first proposed one.
  void committed(std::uint64_t ahead) noexcept;

 private:
  void adapt_reach(unsigned ahead) noexcept;

  std::atomic<int> race_{0};  // Commits until the race is forgotten.
  std::atomic<unsigned> reach_{8};
  std::atomic<std::uint64_t> round_trip_us_{500};
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
    Contention& contention;
    SoleWriter& sole_writer;
    Counts& counts;
  };
  explicit Proposer(const Shared& shared) noexcept : shared_(shared) {}

  // Begins an attempt; false: this apply gives up.
  [[nodiscard]] bool next_attempt() noexcept { return attempts_++ < max_attempts; }

  // What this process has seen of etcd's own revisions.
  struct Seen {
    std::int64_t newest = 0;
    bool recently = false;  // So recently that etcd can't have made `max_age` revisions since.
  };
  [[nodiscard]] Proposal propose(const Needs& needs, const Txn& txn, Seen seen);

  enum class Next : std::uint8_t { finish, retry, make_head };
  // `at`: the revision of a commit.
  [[nodiscard]] Next judge(Verdict verdict, const Proposal& proposal, Revision at);

  // Whether to find out what became of a request without an answer, and go on; false: the caller is
  // told that the outcome is unknown.
  [[nodiscard]] bool may_resolve() noexcept { return resolved_++ < max_resolved; }

 private:
  [[nodiscard]] bool rely_on_own_head(const Needs& needs, const Txn& txn, Seen seen,
                                      Proposal& proposal);
  void add_heads(const Needs& needs, Proposal& proposal);
  [[nodiscard]] std::uint64_t far_ahead();
  void count(Verdict verdict, const Proposal& proposal, Revision at);

  const Shared shared_;
  int attempts_ = 0;
  int resolved_ = 0;
  unsigned outrun_ = 0;
  bool needs_head_ = false;  // A removal that must move the head.
};

}  // namespace tenure::etcd

// executor.hpp: applies, one after the other or many at once: proposing, trying again, reading on.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/common/post_queue.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/clock.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/memo.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

struct LeaseKey;
struct Position;

class Executor {
 public:
  // Makes the head where there is none. Throws StoreError.
  explicit Executor(Address address);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  [[nodiscard]] Outcome apply(const Txn& txn) { return apply(txn, nullptr); }
  // In order, and as many as can be in one transaction of etcd's.
  void apply_all(std::span<stores::Posting> postings);
  // Puts or removes a session's lease key in the same step.
  [[nodiscard]] Outcome apply(const Txn& txn, const LeaseKey* lease_key);

  // Whether the lease key is there, and at which revision of etcd's that was so.
  struct Life {
    bool alive = false;
    std::int64_t at = 0;
  };
  [[nodiscard]] Life read_lease_key(std::string_view id);
  // Head and newest revision, and etcd's revisions of the head and of all this (numbers.hpp).
  struct Where {
    Revision head;
    std::int64_t put_at = 0;
    Revision newest;
    std::int64_t by_etcd = 0;
  };
  [[nodiscard]] Where where();

  // Somebody removed it.
  void saw_gone(std::string_view key) { memo_.gone(key); }

  [[nodiscard]] Client& client() noexcept { return client_; }
  [[nodiscard]] Clock& clock() noexcept { return clock_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }

  // Of applies that write.
  struct Counts {
    std::uint64_t commits = 0;
    std::uint64_t round_trips = 0;
    std::uint64_t outrun = 0;           // Attempts that were repeated since others were faster,
    std::uint64_t surprised = 0;        // or since a key was not as remembered.
    std::uint64_t later_proposals = 0;  // Commits by a further proposal of the same request.
    std::uint64_t proposals = 0;        // All of them.
    std::uint64_t disturbed = 0;        // Attempts that took the head for their own.
  };
  [[nodiscard]] Counts counts() const noexcept;
  // For tests: which of the reads a sole writer would leave out; nothing: it would rely on nothing.
  [[nodiscard]] std::optional<std::vector<bool>> knows(const std::vector<Range>& reads) {
    const auto use = own_.use(reads);
    return use ? std::optional{use->empty} : std::nullopt;
  }

 private:
  class Attempt;
  bool apply_together(std::span<stores::Posting> postings);
  void make_head();
  // Moves the head behind `last`, so that what was proposed up to there is made by now or never
  // will be. Returns etcd's revision of such a head.
  [[nodiscard]] std::int64_t pass(std::uint64_t last);
  // As they were at a revision of etcd's at which one of both was put.
  [[nodiscard]] Position position_at(std::int64_t by_etcd);
  // Transactions proposed up to `last` may still commit: the next apply of this process first makes
  // sure that they can not.
  void leave_open(std::uint64_t last) noexcept;
  void close_open();
  // As of when it was asked: an answer may have been on its way for long.
  void see(std::int64_t by_etcd, std::int64_t asked_ns) noexcept;

  Client client_;
  const Layout layout_;
  Clock clock_;
  Memo memo_;
  SoleWriter own_;
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> round_trips_{0};
  std::atomic<std::uint64_t> outrun_{0};
  std::atomic<std::uint64_t> surprised_{0};
  std::atomic<std::uint64_t> later_{0};
  std::atomic<std::uint64_t> proposed_{0};
  std::atomic<std::uint64_t> disturbed_{0};
  std::atomic<std::uint64_t> round_trip_us_{500};
  std::atomic<int> race_{0};              // Positive: others put at the same time, or did lately.
  std::atomic<unsigned> reach_{8};        // By how many heads others get ahead in a round trip.
  std::atomic<std::int64_t> by_etcd_{0};  // etcd's newest revision that was seen,
  std::atomic<std::int64_t> seen_ns_{0};  // and since when it is known.
  std::atomic<std::uint64_t> open_{0};    // Zero: nothing is.
};

}  // namespace tenure::etcd

// plan.hpp: which tasks there are, what each needs, and which may start: the rules of a pipeline,
// without clock, thread or I/O.
//
// A driver (crew.hpp for callables, loop.hpp for commands) appends tasks, seals the plan, and then
// moves tasks from state to state. The states are those of tenure/pipeline.hpp.
//
//   append, need ──seal()──► roots ──begin()──► running ──finish()──► release() or spread()
//
// Invariants
//  1. A task ends once: the end is a compare-and-swap from a state that is no end, and none leads
//     out of an end. `begin` succeeds once per attempt, so only one driver thread runs a task.
//  2. A task is reported ready once: by the call that releases the last task it needs.
//  3. Nothing recurses: a chain of a million tasks needs no more stack than one of ten.
//
// The word of a task, in one atomic:
//   bits  0- 3  state
//   bits  4- 7  flags of a running task: removed, release, timed_out, lost
//   bits 16-31  attempt
//   bits 32-63  before the end: tasks that need it and were added after seal() (late list);
//               blocked: the failed task that is the cause
//
// Memory ordering: finish() releases, and the call that reports a task ready has acquired all that
// the tasks it needs have done. The driver hands the ready task on with release and acquire.
//
// Thread safety: append, need, link and seal: one thread at a time. All others: any threads, after
// seal().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/chunks.hpp"
#include "tenure/detail/work.hpp"

namespace tenure::pipeline {

enum class State : std::uint8_t {
  waiting,
  claiming,
  delayed,
  running,
  done,  // This and all that follow are ends.
  failed,
  blocked,
  skipped,
  cancelled,
};
[[nodiscard]] constexpr bool is_end(State state) noexcept { return state >= State::done; }

enum class Flag : std::uint8_t {
  removed = 1U << 4U,
  release = 1U << 5U,  // Beside `removed`: its dependents do not need it any more.
  timed_out = 1U << 6U,
  lost = 1U << 7U,  // Its claims.
};

using Index = std::uint32_t;
inline constexpr Index no_task = ~Index{0};

class Plan {
 public:
  static constexpr std::size_t max_size = std::size_t{1} << 24U;

  class Word {
   public:
    constexpr explicit Word(std::uint64_t bits = 0) noexcept : bits_(bits) {}
    [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
    [[nodiscard]] constexpr State state() const noexcept { return static_cast<State>(bits_ & 15U); }
    [[nodiscard]] constexpr bool has(Flag flag) const noexcept {
      return (bits_ & static_cast<std::uint8_t>(flag)) != 0;
    }
    [[nodiscard]] constexpr std::uint16_t attempt() const noexcept {
      return static_cast<std::uint16_t>(bits_ >> 16U);
    }
    [[nodiscard]] constexpr std::uint32_t high() const noexcept {
      return static_cast<std::uint32_t>(bits_ >> 32U);
    }
    [[nodiscard]] constexpr Word with(State state) const noexcept {
      return Word{(bits_ & ~std::uint64_t{15}) | static_cast<std::uint8_t>(state)};
    }
    [[nodiscard]] constexpr Word with(Flag flag) const noexcept {
      return Word{bits_ | static_cast<std::uint8_t>(flag)};
    }
    [[nodiscard]] constexpr Word with_high(std::uint32_t high) const noexcept {
      return Word{(bits_ & 0xffff'ffffU) | (std::uint64_t{high} << 32U)};
    }
    [[nodiscard]] constexpr Word next_attempt() const noexcept {
      const std::uint64_t next = static_cast<std::uint16_t>(attempt() + 1U);
      return Word{(bits_ & ~std::uint64_t{0xffff'00f0}) | (next << 16U)};
    }

   private:
    std::uint64_t bits_;
  };

  // Requires: size() < max_size.
  Index append(detail::Work work);
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  // Before seal().
  void need(Index task, Index dependency) { edges_.emplace_back(dependency, task); }
  void estimate(Index task, float time) { estimates_.emplace_back(task, time); }

  // Throws BadRequest for a cycle, and prints it with these names. Returns the tasks that need
  // none, those of the highest rank first.
  std::vector<Index> seal(const std::function<std::string(Index)>& name);
  [[nodiscard]] bool sealed() const noexcept { return sealed_; }

  // Adds a task that needs `dependencies` after seal(). It is not reported ready before open(task),
  // which returns whether it is ready then. An end: the task must end like this.
  struct End {
    State state;
    Index cause;
  };
  std::optional<End> link(Index task, std::span<const Index> dependencies);
  [[nodiscard]] bool open(Index task) { return satisfy(record(task)); }

  // The length of the longest way from the start of the task to an end of the graph.
  [[nodiscard]] float rank(Index task) const noexcept { return ranks_[task]; }
  // Of two that may start.
  [[nodiscard]] bool goes_before(Index a, Index b) const noexcept {
    return ranks_[a] != ranks_[b] ? ranks_[a] > ranks_[b] : a < b;
  }
  [[nodiscard]] std::span<const Index> successors(Index task) const noexcept {
    const Record& from = records_[task];
    return {successors_.data() + from.first, from.count};
  }
  [[nodiscard]] Word word(Index task) const noexcept {
    return Word{records_[task].word.load(std::memory_order_acquire)};
  }
  [[nodiscard]] detail::Work& work(Index task) noexcept { return records_[task].work; }
  // What a driver keeps beside a task; no_task: nothing.
  [[nodiscard]] std::uint32_t& extra(Index task) noexcept { return records_[task].extra; }
  [[nodiscard]] std::uint32_t extra(Index task) const noexcept { return records_[task].extra; }

  // From waiting, claiming or delayed. False: it has ended, or runs.
  bool begin(Index task) noexcept { return move_on(task, State::running); }
  bool claim(Index task) noexcept { return move_on(task, State::claiming); }
  // From running to delayed, with the next attempt's number. False: it was removed.
  bool delay(Index task) noexcept;
  // Marks a task that is in that attempt. False: it is not.
  bool flag(Index task, std::uint16_t attempt, Flag flag) noexcept;

  // The end of a running task: `state`, or skipped if it was removed. The word is what it was, with
  // the state that it has now.
  Word finish(Index task, State state) noexcept;
  // The end of a task that has not begun. Nothing: it runs, or has ended.
  std::optional<Word> end_unstarted(Index task, State state, Index cause = 0) noexcept;
  // A running task is marked instead, and that word returned. Nothing: it had ended.
  std::optional<Word> remove(Index task, bool release) noexcept;

  // After the end of `task`, whose word finish() or end_unstarted() has returned: its dependents
  // need it no more. Calls ready(dependent) for those that may start now, in ascending rank.
  template <class Ready>
  void release(Index task, Word ended, Ready&& ready) {
    for (const Index next : successors(task)) {
      if (satisfy(record(next))) ready(next);
    }
    for (std::uint32_t at = ended.high(); at != 0; at = late_[at - 1].next) {
      if (satisfy(record(late_[at - 1].task))) ready(late_[at - 1].task);
    }
  }
  // The same, but they end as `state`, and those that need them too: calls each(dependent).
  template <class Each>
  void spread(Index task, Word ended, State state, Index cause, Each&& each) {
    std::vector<std::pair<Index, std::uint32_t>> stack{{task, ended.high()}};
    const auto visit = [&](Index next) {
      if (const std::optional<Word> word = end_unstarted(next, state, cause)) {
        each(next);
        stack.emplace_back(next, word->high());
      }
    };
    while (!stack.empty()) {
      const auto [from, late] = stack.back();
      stack.pop_back();
      for (const Index next : successors(from)) visit(next);
      for (std::uint32_t at = late; at != 0; at = late_[at - 1].next) visit(late_[at - 1].task);
    }
  }

 private:
  struct Record {
    std::atomic<std::uint64_t> word{0};
    std::atomic<std::uint32_t> pending{0};  // Tasks that it needs and that have not ended.
    std::uint32_t first = 0;                // Of its successors.
    std::uint32_t count = 0;
    std::uint32_t extra = no_task;
    detail::Work work;
  };
  static_assert(sizeof(Record) == 64);
  struct Late {
    Index task = 0;
    std::uint32_t next = 0;
  };

  [[nodiscard]] Record& record(Index task) noexcept { return records_[task]; }
  // One task that it needs is done. True: that was the last one. A count of 1 is not written: the
  // caller is the only one left that may.
  static bool satisfy(Record& record) noexcept {
    return record.pending.load(std::memory_order_acquire) == 1 ||
           record.pending.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool move_on(Index task, State state) noexcept;
  [[nodiscard]] std::vector<Index> topological_order() const;
  [[nodiscard]] std::string cycle(const std::vector<Index>& order,
                                  const std::function<std::string(Index)>& name) const;
  void rank_tasks(const std::vector<Index>& order);

  Chunks<Record, 12, max_size> records_;
  Chunks<Late, 12, max_size> late_;
  std::vector<std::pair<Index, Index>> edges_;  // From the needed task; until seal().
  std::vector<std::pair<Index, float>> estimates_;
  std::vector<Index> successors_;
  std::vector<float> ranks_;
  bool sealed_ = false;
};

}  // namespace tenure::pipeline

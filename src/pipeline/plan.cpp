#include "pipeline/plan.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "tenure/error.hpp"

namespace tenure::pipeline {

Index Plan::append(detail::Work work) {
  const auto task = static_cast<Index>(records_.size());
  Record& record = records_.append();
  record.work = std::move(work);
  if (sealed_) ranks_.push_back(1);
  return task;
}

std::vector<Index> Plan::seal(const std::function<std::string(Index)>& name) {
  assert(!sealed_);
  const std::size_t size = records_.size();
  for (const auto& [from, to] : edges_) {
    ++record(from).count;
    record(to).pending.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint32_t first = 0;
  for (Index task = 0; task < size; ++task) {
    record(task).first = first;
    first += std::exchange(record(task).count, 0);
  }
  successors_.resize(edges_.size());
  for (const auto& [from, to] : edges_) {
    Record& source = record(from);
    successors_[source.first + source.count++] = to;
  }
  const std::vector<Index> order = topological_order();
  if (order.size() != size) {
    for (Index task = 0; task < size; ++task) {  // As before: the caller may look at it.
      record(task).count = 0;
      record(task).pending.store(0, std::memory_order_relaxed);
    }
    throw BadRequest(cycle(order, name));
  }
  edges_ = {};
  rank_tasks(order);
  sealed_ = true;

  std::vector<Index> roots;
  for (Index task = 0; task < size; ++task) {
    if (record(task).pending.load(std::memory_order_relaxed) == 0) roots.push_back(task);
  }
  std::ranges::sort(roots, [&](Index a, Index b) { return goes_before(a, b); });
  return roots;
}

std::vector<Index> Plan::topological_order() const {
  std::vector<std::uint32_t> pending(records_.size());
  std::vector<Index> order;
  order.reserve(records_.size());
  for (Index task = 0; task < records_.size(); ++task) {
    pending[task] = records_[task].pending.load(std::memory_order_relaxed);
    if (pending[task] == 0) order.push_back(task);
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const Index next : successors(order[at])) {
      if (--pending[next] == 0) order.push_back(next);
    }
  }
  return order;
}

// Each task that is not in the order needs another one that is not: following those leads round.
std::string Plan::cycle(const std::vector<Index>& order,
                        const std::function<std::string(Index)>& name) const {
  std::vector<bool> ordered(records_.size());
  for (const Index task : order) ordered[task] = true;
  std::vector<Index> needs(records_.size(), no_task);
  Index start = no_task;
  for (const auto& [from, to] : edges_) {
    if (ordered[from] || ordered[to]) continue;
    needs[to] = from;
    start = std::min(start, to);
  }
  std::vector<bool> seen(records_.size());
  Index at = start;
  for (; !seen[at]; at = needs[at]) seen[at] = true;
  std::string text = "tasks need each other in a cycle: " + name(at);
  for (Index next = needs[at];; next = needs[next]) {
    text += " needs " + name(next);
    if (next == at) break;
  }
  return text + ": remove one of these dependencies";
}

void Plan::rank_tasks(const std::vector<Index>& order) {
  ranks_.assign(records_.size(), 1);
  for (const auto& [task, time] : estimates_) ranks_[task] = time;
  estimates_ = {};
  for (std::size_t at = order.size(); at-- > 0;) {
    const Record& from = record(order[at]);
    if (from.count == 0) continue;
    const std::span<Index> next{successors_.data() + from.first, from.count};
    // The first to go is last: a driver that runs that one at once and stacks the others keeps the
    // order.
    if (from.count > 1) {
      std::ranges::sort(next, [&](Index a, Index b) { return goes_before(b, a); });
    }
    ranks_[order[at]] += ranks_[next.back()];
  }
}

std::optional<Plan::End> Plan::link(Index task, std::span<const Index> dependencies) {
  Record& own = record(task);
  // One more, until open().
  own.pending.store(static_cast<std::uint32_t>(dependencies.size()) + 1, std::memory_order_relaxed);
  std::optional<End> end;
  for (const Index dependency : dependencies) {
    Record& needed = record(dependency);
    std::uint32_t late = 0;
    std::uint64_t bits = needed.word.load(std::memory_order_acquire);
    while (!is_end(Word{bits}.state())) {
      if (late == 0) {
        late_.append().task = task;
        late = static_cast<std::uint32_t>(late_.size());
      }
      late_[late - 1].next = Word{bits}.high();
      if (needed.word.compare_exchange_weak(bits, Word{bits}.with_high(late).bits(),
                                            std::memory_order_acq_rel, std::memory_order_acquire)) {
        break;
      }
    }
    const Word word{bits};
    if (!is_end(word.state())) continue;
    if (word.state() == State::done || word.has(Flag::release)) {
      own.pending.fetch_sub(1, std::memory_order_relaxed);
    } else if (!end) {
      const bool fault = word.state() == State::failed || word.state() == State::blocked;
      end = End{.state = fault ? State::blocked : word.state(),
                .cause = word.state() == State::blocked ? word.high() : dependency};
    }
  }
  return end;
}

bool Plan::move_on(Index task, State state) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_relaxed);
  while (Word{bits}.state() < State::running) {
    if (word.compare_exchange_weak(bits, Word{bits}.with(state).bits(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

bool Plan::delay(Index task) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_relaxed);
  while (!Word{bits}.has(Flag::removed)) {
    const Word next = Word{bits}.with(State::delayed).next_attempt();
    if (word.compare_exchange_weak(bits, next.bits(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as everywhere, the task is first.
bool Plan::flag(Index task, std::uint16_t attempt, Flag flag) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_relaxed);
  while (Word{bits}.state() == State::running && Word{bits}.attempt() == attempt) {
    if (word.compare_exchange_weak(bits, Word{bits}.with(flag).bits(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

Plan::Word Plan::finish(Index task, State state) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_relaxed);
  while (true) {
    assert(Word{bits}.state() == State::running);
    const State end = Word{bits}.has(Flag::removed) ? State::skipped : state;
    const Word next = Word{bits}.with(end);
    if (word.compare_exchange_weak(bits, next.bits(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return next;
    }
  }
}

std::optional<Plan::Word> Plan::end_unstarted(Index task, State state, Index cause) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_acquire);
  while (Word{bits}.state() < State::running) {
    const Word next = Word{bits}.with(state).with_high(cause);
    if (word.compare_exchange_weak(bits, next.bits(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return Word{bits}.with(state);
    }
  }
  return std::nullopt;
}

std::optional<Plan::Word> Plan::remove(Index task, bool release) noexcept {
  std::atomic<std::uint64_t>& word = record(task).word;
  std::uint64_t bits = word.load(std::memory_order_acquire);
  while (!is_end(Word{bits}.state()) && !Word{bits}.has(Flag::removed)) {
    const bool runs = Word{bits}.state() == State::running;
    Word marked = Word{bits}.with(Flag::removed);
    if (release) marked = marked.with(Flag::release);
    const Word next = runs ? marked : marked.with(State::skipped);
    if (word.compare_exchange_weak(bits, next.bits(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return next;
    }
  }
  return std::nullopt;
}

}  // namespace tenure::pipeline

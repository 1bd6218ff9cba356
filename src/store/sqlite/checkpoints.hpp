// checkpoints.hpp: decides when the write-ahead log is moved into the database (a checkpoint), and
// by which thread.
//
// A checkpoint takes two syncs and writes a megabyte. SQLite leaves it to the next commit. Here a
// thread moves most of the log while writers go on, and a writer moves the short rest:
//
//   the log is long --- thread: moves it, while others write on --- a writer: moves what they wrote
//
// Only then is the log empty, and the next writer starts it from the beginning.
//
// If the log can't restart, because somebody is reading it, the next commit tries again; after each
// further failure the log must have grown by twice as much before the next attempt.
//
// Thread safety: due() is called by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace tenure::sqlite {

class Checkpoints {
 public:
  // SQLite's own default. A shorter log costs more syncs. A longer log makes each write slower: the
  // log's index is a hash of page numbers, and entries of a page that is written often are probed
  // one by one.
  static constexpr int long_log = 1000;
  // A log of few commits has few entries of each page: it may be longer. Transactions that share
  // commits write many pages each, and would otherwise wait for a checkpoint every few commits.
  static constexpr int few_commits = 250;
  static constexpr int long_log_of_batches = 4000;

  // Moves as much as it can. Returns how many pages at the beginning of the log have been moved by
  // then.
  using Move = std::function<int()>;
  explicit Checkpoints(Move beside) : move_(std::move(beside)) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints() { stop(); }

  // Called after a commit that left the log `pages` long. Returns whether the writer moves the rest
  // now.
  [[nodiscard]] bool due(int pages);
  // Waits for the thread. Afterwards due() returns false.
  void stop() noexcept;

 private:
  enum State : std::uint8_t { resting, moving, moved, stopped };
  [[nodiscard]] bool ask();
  void work() noexcept;

  const Move move_;
  int pages_ = 0;           // At the last call,
  int commits_ = 0;         // of so many since the log began.
  int next_at_ = long_log;  // The length of the log at the next attempt,
  int gap_ = 1;             // and how much it must grow before the one after that.
  int moved_ = 0;           // Owned by the thread while it is moving the log.
  std::atomic<std::uint32_t> state_{resting};
  std::thread thread_;
};

}  // namespace tenure::sqlite

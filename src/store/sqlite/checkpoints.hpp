// checkpoints.hpp: when the log is moved into the database, so that it can begin anew.
//
// That is two syncs and a megabyte written, which SQLite leaves to whoever commits next. Here a
// thread does most of it beside the writers, and one of them only the rest, which is short:
//
//   the log is long --- thread: moves it, while others write on --- a writer: moves what they wrote
//
// Only then is there nothing left in the log, and the next writer begins it anew.
//
// A log that can't begin anew, because somebody reads meanwhile, is tried again at once; then,
// while that goes on, when it has grown by twice as much as before.
//
// Thread safety: due() one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace tenure::sqlite {

class Checkpoints {
 public:
  // SQLite's own figure. With fewer pages, syncs cost more; with more, each write does: the log's
  // index is a hash of page numbers, in which a page that is written time and again is looked for
  // step by step.
  static constexpr int long_log = 1000;

  // Moves what it can; how many pages at the log's beginning have been moved then.
  using Move = std::function<int()>;
  explicit Checkpoints(Move beside) : move_(std::move(beside)) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints() { stop(); }

  // After a commit that left the log so long: whether the writer is to move the rest now.
  [[nodiscard]] bool due(int pages);
  // Waits for the thread. Nothing is due after this.
  void stop() noexcept;

 private:
  enum State : std::uint8_t { resting, moving, moved, stopped };
  [[nodiscard]] bool ask();
  void work() noexcept;

  const Move move_;
  int next_at_ = long_log;  // The length at which it is tried next, and by how much more the time
  int gap_ = 1;             // after that.
  int moved_ = 0;           // The thread's, while it is moving.
  std::atomic<std::uint32_t> state_{resting};
  std::thread thread_;
};

}  // namespace tenure::sqlite

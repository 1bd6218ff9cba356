// inbox.hpp: messages of other processes and engines, read and handed to those that they are for.
//
// Each change of an inbox leads to a scan of all messages that are there. What is under way already
// is skipped. A scan of many messages is followed by a pause four times as long, so that scans cost
// at most a fifth of one core however many messages wait.
//
// Invariants
//   1. One scan at a time. A call of read() during a scan leads to another one after it.
//   2. A message is handed out once per reign, until done() says that it is dealt with.
//   3. A scan hands out no message that was dealt with while the store was read.
//
// Thread safety: all calls. read() reads the store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

class Core;

class Inbox {
 public:
  explicit Inbox(Core& core) noexcept : core_(core) {}

  // Reads when something has changed after this revision.
  void watch(Revision after);
  void read();
  // The message is removed, or is to be handed out again by the next scan.
  void done(const std::string& key);
  // What was handed to this workflow, which dropped it, is handed out again by the next scan.
  void forget(const std::string& workflow);
  void stop();

 private:
  struct Handed {
    std::uint64_t reign = 0;
    std::string workflow;  // Or the row of a trigger.
  };
  // False: not now; another call follows.
  [[nodiscard]] bool begin_scan();
  void hand_out(const Entry& entry);
  void end_scan(Instant began, std::size_t found);

  Core& core_;
  base::Mutex mutex_;
  bool scanning_ TENURE_GUARDED_BY(mutex_) = false;
  bool again_ TENURE_GUARDED_BY(mutex_) = false;
  bool pausing_ TENURE_GUARDED_BY(mutex_) = false;
  Instant not_before_ TENURE_GUARDED_BY(mutex_) = Instant::min();
  std::unordered_map<std::string, Handed> handling_ TENURE_GUARDED_BY(mutex_);  // By key.
  std::unordered_set<std::string> done_ TENURE_GUARDED_BY(mutex_);              // During this scan.
  base::Mutex watch_mutex_;
  std::unique_ptr<Watch> watch_ TENURE_GUARDED_BY(watch_mutex_);
};

}  // namespace tenure::flow

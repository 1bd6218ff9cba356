// triggers.hpp: what starts workflows by itself: schedules, debounced calls, batches.
//
// A trigger is a row of the store in the partition that its name hashes to, with at most one timer.
// The owner of the partition acts when the timer is due, when somebody has changed the row, and
// when a run that the trigger started has ended (the run's last transaction says so). One turn
// advances the row, moves the timer, removes the messages and starts at most one workflow, all in
// one transaction, guarded on the row and the reign: so each time is acted on exactly once.
//
//   row name   | what it is
//   -----------+---------------------------------------------------------
//   s ID       | a schedule: schedule_rule.hpp
//   d TYPE KEY | a window of debounced calls: collect_rule.hpp
//   b TYPE KEY | a batch that collects items: collect_rule.hpp
//
// Invariants
//   1. One transaction at a time per row in this engine.
//   2. Of a row nothing is remembered between two transactions, but for one that follows at once.
//
// Thread safety: all calls. None blocks for long; none throws.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "flow/partitions.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

class Core;

// What a rule makes of a row.
struct TriggerStep {
  struct Start {
    std::string type;
    std::string input;
    std::string id;
    std::map<std::string, std::string> tags;
    bool tell_end = false;  // The trigger wants to know when it ends.
  };
  std::optional<std::string> row;  // The new value; nothing: the row goes.
  std::optional<Instant> old_timer;
  std::optional<Instant> timer;
  std::optional<Start> start;
  // Where the start is refused by a limit: the row that is written instead, and its timer.
  std::function<std::string()> row_if_refused;
  std::optional<Instant> timer_if_refused;
  std::vector<std::string> cancels;  // Workflows.
  std::vector<std::string> removes;  // Keys.
  std::size_t consumed = 0;          // Messages, from the front.
  bool again = false;
};

class Triggers {
 public:
  explicit Triggers(Core& core) : core_(core) {}

  // The timer of this row is due.
  void due(const std::string& row);
  // A message to a row; `key` is the message's.
  void told(const Message& message, const std::string& key);

 private:
  struct Told {
    std::string key;
    Message message;
  };
  // What has happened to a row since it was last looked at.
  struct Pending {
    bool busy = false;
    bool look = false;
    std::deque<Told> messages;
  };
  struct Turn;

  void wake(const std::string& row);
  void act(const std::string& row);
  // On the row that a turn has just written. False: somebody else must, or nothing is to be done.
  [[nodiscard]] bool act_at_once(const Turn& before, Revision revision);
  void act_on(const std::shared_ptr<Turn>& turn, const std::function<std::optional<Entry>()>& read);
  void act_on_row(const std::shared_ptr<Turn>& turn, const Entry* row);
  [[nodiscard]] TriggerStep step_of(const Turn& turn, const Entry* row);
  [[nodiscard]] TriggerStep collect_step(const Turn& turn, const Entry* row);
  // Gives back what the step did not consume.
  void put_back(Turn& turn);
  void add_writes(Turn& turn);
  void start(const std::shared_ptr<Turn>& turn);
  void commit(const std::shared_ptr<Turn>& turn);
  void committed(const Turn& turn, Revision revision);
  void finish(const std::string& row, bool again);
  // Reads the row anew, now or after a pause.
  void repeat(Turn& turn, bool later);
  void give_up(const Turn& turn);

  Core& core_;
  base::Mutex mutex_;
  std::map<std::string, Pending> pending_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::flow

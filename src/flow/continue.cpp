// continue-as-new: the end of one run of a workflow and the start of the next, in one transaction.
#include <map>

#include "flow/core.hpp"
#include "flow/instance.hpp"

namespace tenure::flow {

// The workflow keeps its id, its record's key, its place and its deadline. Operations of the next
// run have keys that no run before used: results, timers and locks that come late find nobody.
// NOLINTBEGIN(bugprone-unchecked-optional-access): a turn has its record.
void Instance::continue_as_new(const std::string& input, Turn& turn) {
  try {
    core_.definition(record_->type)->check(input);
  } catch (const std::exception& error) {
    end(FlowState::failed,
        ErrorInfo{.type = "bad-request",
                  .code = {},
                  .message = "it cannot continue as new with " + input + ": " + error.what()}
            .text(),
        turn);
    return;
  }
  const std::map<std::string, std::string> updates = machine_->updates();  // Ends change it.
  for (const auto& [update, name] : updates) {
    machine_->update_ended(
        {.id = update,
         .ok = false,
         .value = ErrorInfo{.type = "continued",
                            .code = {},
                            .message = "the workflow continued as new before the handler ended"}
                      .text()});
  }
  Record record = *record_;
  const std::uint32_t before = record.run++;
  record.last = machine_->last();
  record.seed = core_.options().random();
  record.starts = turn.now;
  record.input = input;
  drop_work(turn);
  tell_children(turn);
  const std::string prefix = keys::log_prefix(partition_, id_, record.run);
  std::uint32_t order = 0;
  machine_->each_signal([&](const std::string& name, const std::string& value) {
    LogEntry entry;
    entry.kind = EntryKind::signal;
    entry.stamp = turn.now;
    entry.name = name;
    entry.value = value;
    turn.txn.writes.push_back(Write::put(keys::log(prefix, order++), encode(entry)));
  });
  record.carried = order;
  add_timer({.scope = keys::cleaning_scope, .sequence = before}, turn.now, turn);
  turn.txn.writes.push_back(
      Write::put(keys::runnable(partition_, id_), std::string{keys::nothing_ran}));
  const std::string key = keys::record(partition_, id_);
  turn.txn.guards.push_back(Guard::unchanged(key, record_revision_));
  turn.txn.writes.push_back(Write::put(key, encode(record)));
  turn.continued = true;
}
// NOLINTEND(bugprone-unchecked-optional-access)

// That is committed: the next turn reads the record again.
void Instance::begin_next_run() {
  for (const auto& [key, attempt] : running_) attempt->abandoned = true;
  running_.clear();
  machine_.reset();
  record_.reset();
  const base::Mutex::Scoped lock{mutex_};
  mailbox_.insert(mailbox_.begin(), Event{Event::Load{}});
}

}  // namespace tenure::flow

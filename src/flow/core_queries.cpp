// What other threads and processes ask of an engine: messages to send, states, lists, histories.
#include "flow/core.hpp"
#include "flow/queries.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

std::optional<Entry> Core::read(const std::string& key) {
  Txn txn;
  txn.reads.push_back(Range::key(key));
  Outcome outcome = store_->apply(txn);
  if (outcome.reads.front().empty()) return std::nullopt;
  return std::move(outcome.reads.front().front());
}

Queries Core::queries() {
  begin();
  return {*store_, partitions_->count()};
}

Schedules Core::schedules() {
  begin();
  return {*store_, partitions_->count(), options_.durability};
}

void Core::send(const std::string& id, Message message, std::string_view message_id) {
  const Queries to = queries();
  const std::shared_ptr<Instance> here = find_instance(id);
  to.send(id, std::move(message), message_id, options_.durability,
          here ? here->record_revision() : Revision{});
}

// --- what others may know

FlowInfo Core::info(const std::string& id) {
  FlowInfo info = queries().info(id);
  if (const std::shared_ptr<Instance> here = find_instance(id)) info.problem = here->problem();
  return info;
}

void Core::when_ended(const std::string& id, std::function<void(const FlowInfo&)> done) {
  begin();
  {
    const base::Mutex::Scoped lock{mutex_};
    listeners_.emplace(id, std::move(done));
    const auto at = instances_.find(id);
    // Its end tells, or lost() looks for the end.
    if (at != instances_.end() && at->second->reign() == partitions_->owner(partition_of(id))) {
      return;
    }
  }
  look_for_end(id);
  std::multimap<std::string, std::function<void(const FlowInfo&)>> listeners;
  std::map<std::string, EndWatch> watches;
  const base::Mutex::Scoped lock{mutex_};
  if (!drained_) return;
  listeners.swap(listeners_);  // drain() has done this before they came.
  watches.swap(end_watches_);
}

// Tells the listeners where the workflow has ended, or watches it where another engine has it. Of
// several looks at once the last one to begin has read the most, and keeps its watch.
void Core::look_for_end(const std::string& id) {
  const std::string key = keys::record(partition_of(id), id);
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (!listeners_.contains(id)) return;
    round = ++end_watches_[id].round;
  }
  Outcome outcome;
  try {
    Txn txn;
    txn.reads.push_back(Range::key(key));
    outcome = store_->apply(txn);
  } catch (const StoreError&) {
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this, id] { look_for_end(id); });
    return;
  }
  if (outcome.reads.front().empty()) return;
  const Record record = parsed_record(outcome.reads.front().front());
  if (is_terminal(record.state)) {
    tell_end(id, record);
    return;
  }
  WatchFor what;
  what.ranges.push_back(Range::key(key));
  what.after = outcome.revision;
  std::unique_ptr<Watch> watch = store_->watch(std::move(what), [weak = weak_from_this(), id] {
    if (const std::shared_ptr<Core> core = weak.lock()) {
      core->post([core, id] { core->look_for_end(id); });
    }
  });
  const base::Mutex::Scoped lock{mutex_};
  const auto at = end_watches_.find(id);
  if (at != end_watches_.end() && at->second.round == round) at->second.watch.swap(watch);
}

void Core::tell_end(const std::string& id, const Record& record) {
  std::vector<std::function<void(const FlowInfo&)>> told;
  std::unique_ptr<Watch> watch;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto [from, to] = listeners_.equal_range(id);
    for (auto at = from; at != to; ++at) told.push_back(std::move(at->second));
    listeners_.erase(from, to);
    if (const auto at = end_watches_.find(id); at != end_watches_.end()) {
      watch = std::move(at->second.watch);
      end_watches_.erase(at);
    }
  }
  if (told.empty()) return;
  const FlowInfo info = info_of(id, record, record.ended.value_or(Instant{}));
  for (const auto& done : told) done(info);
}

void Core::ended(const std::string& id, const Record& record) {
  if (!record.admission.empty()) {
    admission_.free(record.admission.substr(0, record.admission.size() - 4),
                    keys::place_of(record.admission));
  }
  tell_end(id, record);
}

void Core::gave_back(const Queues::Handover& handover, bool committed) {
  queues_.done(handover, committed);
  if (committed && !handover.seat.empty()) left_queue(handover.seat);
}

void Core::left_queue(const std::string& seat) {
  admission_.free(seat.substr(0, seat.size() - 4), keys::place_of(seat));
}

std::vector<FlowInfo> Core::list(const FlowFilter& filter) { return queries().list(filter); }

std::vector<HistoryEntry> Core::history(const std::string& id, std::uint32_t from,
                                        std::size_t limit) {
  return queries().history(id, from, limit);
}

}  // namespace tenure::flow

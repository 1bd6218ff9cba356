// What other threads and processes ask of an engine: messages to send, states, lists, histories.
#include <algorithm>

#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

constexpr std::uint32_t record_page = 1000;  // Records that are read at once.

FlowInfo info_of(std::string id, const Record& record, Instant now) {
  FlowInfo info{.id = std::move(id),
                .type = record.type,
                .state = record.state,
                .created = record.created,
                .starts = record.starts,
                .deadline = record.deadline,
                .ended = record.ended,
                .tags = record.tags,
                .input = record.input,
                .result = {},
                .error = {},
                .problem = {}};
  if (record.state == FlowState::running && now < record.starts) info.state = FlowState::scheduled;
  if (record.state == FlowState::completed) {
    info.result = record.result;
  } else if (is_terminal(record.state)) {
    info.error = ErrorInfo::parse(record.result);
  }
  return info;
}

Record parsed(const Entry& entry) {
  std::expected<Record, std::string> record = decode_record(entry.value);
  if (!record) {
    throw Error("workflow '" + keys::id_of_record(entry.key) + "': " + record.error());
  }
  return *std::move(record);
}

}  // namespace

std::optional<Entry> Core::read(const std::string& key) {
  Txn txn;
  txn.reads.push_back(Range::key(key));
  Outcome outcome = store_->apply(txn);
  if (outcome.reads.front().empty()) return std::nullopt;
  return std::move(outcome.reads.front().front());
}

void Core::send(const std::string& id, Message message, std::string_view message_id) {
  begin();
  const Partition partition = partition_of(id);
  const std::string record_key = keys::record(partition, id);
  message.workflow = id;
  while (true) {
    const std::optional<Entry> found = read(record_key);
    if (!found) throw NoSuchWorkflow("there is no workflow '" + id + "'");
    const FlowState state = parsed(*found).state;
    if (is_terminal(state)) {
      throw WorkflowEnded("workflow '" + id + "' has ended (" + std::string{text_of(state)} +
                          "): it takes no messages any more");
    }
    Txn txn;
    // The record changes only when the workflow ends.
    txn.guards.push_back(Guard::unchanged(record_key, found->changed));
    txn.writes.push_back(Write::append(keys::inbox(partition), encode(message)));
    txn.durability = options_.durability;
    if (!message_id.empty()) {
      const std::string used = keys::message(partition, id, message_id);
      txn.guards.push_back(Guard::absent(used));
      txn.writes.push_back(Write::put(used, ""));
      txn.reads.push_back(Range::key(used));
    }
    const Outcome outcome = store_->apply(txn);
    if (outcome.committed) return;
    if (!message_id.empty() && !outcome.reads.front().empty()) return;  // Sent before.
  }
}

// --- what others may know

FlowInfo Core::info(const std::string& id) {
  begin();
  const std::optional<Entry> found = read(keys::record(partition_of(id), id));
  if (!found) throw NoSuchWorkflow("there is no workflow '" + id + "'");
  FlowInfo info = info_of(id, parsed(*found), store_->now());
  std::shared_ptr<Instance> here;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (const auto at = instances_.find(id); at != instances_.end()) here = at->second;
  }
  if (here) info.problem = here->problem();
  return info;
}

void Core::when_ended(const std::string& id, std::function<void(const FlowInfo&)> done) {
  begin();
  {
    const base::Mutex::Scoped lock{mutex_};
    listeners_.emplace(id, std::move(done));
    if (instances_.contains(id)) return;  // Its end tells.
  }
  look_for_end(id);
  std::multimap<std::string, std::function<void(const FlowInfo&)>> listeners;
  std::map<std::string, std::unique_ptr<Watch>> watches;
  const base::Mutex::Scoped lock{mutex_};
  if (!drained_) return;
  listeners.swap(listeners_);  // drain() has done this before they came.
  watches.swap(record_watches_);
}

// Tells the listeners where the workflow has ended, or watches it where another engine has it.
void Core::look_for_end(const std::string& id) {
  const std::string key = keys::record(partition_of(id), id);
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
  const Record record = parsed(outcome.reads.front().front());
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
  if (listeners_.contains(id)) record_watches_[id].swap(watch);
}

void Core::tell_end(const std::string& id, const Record& record) {
  std::vector<std::function<void(const FlowInfo&)>> told;
  std::unique_ptr<Watch> watch;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto [from, to] = listeners_.equal_range(id);
    for (auto at = from; at != to; ++at) told.push_back(std::move(at->second));
    listeners_.erase(from, to);
    if (const auto at = record_watches_.find(id); at != record_watches_.end()) {
      watch = std::move(at->second);
      record_watches_.erase(at);
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

std::vector<FlowInfo> Core::list(const FlowFilter& filter) {
  begin();
  const Instant now = store_->now();
  std::vector<FlowInfo> all;
  for (std::uint32_t p = 0; p < partitions_->count() && all.size() < filter.limit; ++p) {
    Range range = keys::records(static_cast<Partition>(p)).first(record_page);
    while (all.size() < filter.limit) {
      Txn txn;
      txn.reads.push_back(range);
      const std::vector<Entry> found = std::move(store_->apply(txn).reads.front());
      for (const Entry& entry : found) {
        FlowInfo info = info_of(keys::id_of_record(entry.key), parsed(entry), now);
        const bool fits = (filter.type.empty() || filter.type == info.type) &&
                          (!filter.state || *filter.state == info.state) &&
                          std::ranges::all_of(filter.tags, [&](const auto& tag) {
                            const auto at = info.tags.find(tag.first);
                            return at != info.tags.end() && at->second == tag.second;
                          });
        if (fits && all.size() < filter.limit) all.push_back(std::move(info));
      }
      if (found.size() < record_page) break;
      range.from = found.back().key + '\0';
    }
  }
  return all;
}

std::vector<HistoryEntry> Core::history(const std::string& id, std::uint32_t from,
                                        std::size_t limit) {
  begin();
  const Partition partition = partition_of(id);
  if (!read(keys::record(partition, id))) {
    throw NoSuchWorkflow("there is no workflow '" + id + "'");
  }
  Txn txn;
  txn.reads.push_back(keys::log_from(keys::log_prefix(partition, id), from)
                          .first(static_cast<std::uint32_t>(limit)));
  std::vector<HistoryEntry> all;
  const Outcome outcome = store_->apply(txn);
  for (const Entry& stored : outcome.reads.front()) {
    const std::uint32_t order = keys::order_of(stored.key);
    const std::expected<LogEntry, std::string> entry = decode_entry(stored.value);
    if (!entry) {
      throw Error("workflow '" + id + "', entry " + std::to_string(order) + ": " + entry.error());
    }
    all.push_back({.order = order,
                   .kind = std::string{text_of(entry->kind)},
                   .name = entry->name,
                   .scope = entry->key.scope,
                   .sequence = entry->key.sequence,
                   .attempt = entry->attempt,
                   .stamp = entry->stamp,
                   .value = entry->value});
  }
  return all;
}

}  // namespace tenure::flow

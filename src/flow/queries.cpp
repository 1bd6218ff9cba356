#include "flow/queries.hpp"

#include <algorithm>
#include <expected>
#include <utility>

#include "flow/children.hpp"
#include "tenure/codec.hpp"
#include "tenure/error.hpp"

namespace tenure::flow {
namespace {

constexpr std::uint32_t record_page = 1000;  // Records that are read at once.

bool fits(const FlowInfo& info, const FlowFilter& filter) {
  return (filter.type.empty() || filter.type == info.type) &&
         (!filter.state || *filter.state == info.state) &&
         (!filter.created_from || info.created >= *filter.created_from) &&
         (!filter.created_before || info.created < *filter.created_before) &&
         std::ranges::all_of(filter.tags, [&info](const auto& tag) {
           const auto at = info.tags.find(tag.first);
           return at != info.tags.end() && at->second == tag.second;
         });
}

std::vector<Entry> read(Store& store, const Range& range) {
  Txn txn;
  txn.reads.push_back(range);
  return std::move(store.apply(txn).reads.front());
}

}  // namespace

Record parsed_record(const Entry& entry) {
  std::expected<Record, std::string> record = decode_record(entry.value);
  if (!record) {
    throw Error("workflow '" + keys::id_of_record(entry.key) + "': " + record.error());
  }
  return *std::move(record);
}

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
                .parent = {},
                .run = record.run,
                .problem = {}};
  if (const std::optional<ParentLink> parent = parse_parent(record.parent))
    info.parent = parent->id;
  if (record.state == FlowState::running && now < record.starts) info.state = FlowState::scheduled;
  if (record.state == FlowState::completed) {
    info.result = record.result;
  } else if (is_terminal(record.state)) {
    info.error = ErrorInfo::parse(record.result);
  }
  return info;
}

std::optional<std::uint32_t> Queries::partitions_of(Store& store) {
  const std::vector<Entry> found = read(store, Range::key(keys::config()));
  if (found.empty()) return std::nullopt;
  return Codec<std::uint32_t>::decode(found.front().value);
}

Entry Queries::record_of(const std::string& id) const {
  std::vector<Entry> found = read(*store_, Range::key(keys::record(partition_of(id), id)));
  if (found.empty()) throw NoSuchWorkflow("there is no workflow '" + id + "'");
  return std::move(found.front());
}

FlowInfo Queries::info(const std::string& id) const {
  const Entry entry = record_of(id);
  std::vector<FlowInfo> one{info_of(id, parsed_record(entry), store_->now())};
  Queued queued;
  note_queued(entry, 0, queued);
  find_positions(queued, one);
  return std::move(one.front());
}

void Queries::note_queued(const Entry& entry, std::size_t index, Queued& queued) {
  const Record record = parsed_record(entry);
  if (record.state != FlowState::queued) return;
  queued[keys::queue(keys::places_of_seat(record.seat))][queue_key(record, entry.changed)] = index;
}

// Reads each queue up to the last one that is asked for.
void Queries::find_positions(const Queued& queued, std::vector<FlowInfo>& infos) const {
  for (const auto& [queue, wanted] : queued) {
    Range range = Range::prefix(queue).first(record_page);
    range.to = wanted.rbegin()->first + '\0';
    std::size_t position = 0;
    while (true) {
      const std::vector<Entry> found = read(*store_, range);
      for (const Entry& entry : found) {
        if (const auto at = wanted.find(entry.key); at != wanted.end()) {
          infos.at(at->second).position = position;
        }
        ++position;
      }
      if (found.size() < record_page) break;
      range.from = found.back().key + '\0';
    }
  }
}

// By partition, and by id within one.
std::vector<FlowInfo> Queries::list(const FlowFilter& filter) const {
  const Instant now = store_->now();
  std::vector<FlowInfo> all;
  Queued queued;
  const keys::Partition first = filter.after.empty() ? 0 : partition_of(filter.after);
  for (std::uint32_t p = first; p < partitions_ && all.size() < filter.limit; ++p) {
    const auto partition = static_cast<keys::Partition>(p);
    Range range = keys::records(partition).first(record_page);
    if (p == first && !filter.after.empty()) {
      range.from = keys::record(partition, filter.after) + '\0';
    }
    while (all.size() < filter.limit) {
      const std::vector<Entry> found = read(*store_, range);
      for (const Entry& entry : found) {
        FlowInfo info = info_of(keys::id_of_record(entry.key), parsed_record(entry), now);
        if (!fits(info, filter) || all.size() >= filter.limit) continue;
        if (info.state == FlowState::queued) note_queued(entry, all.size(), queued);
        all.push_back(std::move(info));
      }
      if (found.size() < record_page) break;
      range.from = found.back().key + '\0';
    }
  }
  find_positions(queued, all);
  return all;
}

std::vector<HistoryEntry> Queries::history(const std::string& id, std::uint32_t from,
                                           std::size_t limit) const {
  const std::uint32_t run = parsed_record(record_of(id)).run;
  std::vector<HistoryEntry> all;
  const std::vector<Entry> found =
      read(*store_, keys::log_from(keys::log_prefix(partition_of(id), id, run), from)
                        .first(static_cast<std::uint32_t>(limit)));
  for (const Entry& stored : found) {
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

std::vector<Instant> Queries::timers(const std::string& id) const {
  std::vector<Instant> all;
  Range range = keys::timers(partition_of(id)).first(record_page);
  while (true) {
    const std::vector<Entry> found = read(*store_, range);
    for (const Entry& entry : found) {
      const std::optional<keys::Timer> timer = keys::parse_timer(entry.key);
      // The start, the deadline and the removal are told otherwise.
      const bool own = timer && timer->id == id && timer->key.scope < keys::trigger_timer.scope;
      if (own) all.push_back(timer->due);
    }
    if (found.size() < record_page) return all;
    range.from = found.back().key + '\0';
  }
}

// Pages are read one after another; the entries count up to the first one that is missing. Where
// the workflow continued as new meanwhile, its record has changed, and all is read again.
FlowHistory Queries::stored_history(const std::string& id) const {
  const keys::Partition partition = partition_of(id);
  while (true) {
    const Entry found = record_of(id);
    const Record record = parsed_record(found);
    FlowHistory history{.id = id,
                        .type = record.type,
                        .state = record.state,
                        .seed = record.seed,
                        .created = record.created,
                        .starts = record.starts,
                        .run = record.run,
                        .last = record.last,
                        .carried = record.carried,
                        .root = record.root,
                        .input = record.input,
                        .result = record.result,
                        .has_begun = true,
                        .entries = {}};
    const std::vector<Entry> row = read(*store_, Range::key(keys::runnable(partition, id)));
    const std::string prefix = keys::log_prefix(partition, id, record.run);
    std::vector<Entry> page;
    do {
      page =
          read(*store_, keys::log_from(prefix, static_cast<std::uint32_t>(history.entries.size()))
                            .first(record_page));
      for (const Entry& stored : page) {
        std::expected<LogEntry, std::string> entry = decode_entry(stored.value);
        if (!entry) {
          throw Error("workflow '" + id + "', entry " + std::to_string(history.entries.size()) +
                      ": " + entry.error());
        }
        history.entries.push_back(*std::move(entry));
      }
    } while (page.size() == record_page);
    history.has_begun = is_terminal(record.state) || history.entries.size() != record.carried ||
                        row.empty() || row.front().value != keys::nothing_ran;
    if (record_of(id).changed == found.changed) return history;
  }
}

std::string Queries::retry_id(const std::string& id) const {
  // A retry of a retry counts on: "a~2" is followed by "a~3".
  std::string base = id;
  if (const std::size_t tilde = id.rfind('~');
      tilde != std::string::npos && tilde + 1 < id.size() &&
      std::ranges::all_of(id.substr(tilde + 1), [](char c) { return c >= '0' && c <= '9'; })) {
    base = id.substr(0, tilde);
  }
  for (std::uint32_t number = 2;; ++number) {
    std::string next = base + "~" + std::to_string(number);
    if (read(*store_, Range::key(keys::record(partition_of(next), next))).empty()) return next;
  }
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the old one, the new one.
void Queries::send_retry(const std::string& id, const std::string& as,
                         Durability durability) const {
  const FlowState state = parsed_record(record_of(id)).state;
  if (!is_terminal(state) || state == FlowState::completed) {
    throw BadRequest("workflow '" + id + "' is " + std::string{text_of(state)} +
                     ": only one that failed, was cancelled or timed out is started again");
  }
  Txn txn;
  txn.durability = durability;
  txn.writes.push_back(Write::append(
      keys::inbox(partition_of(id)),
      encode(Message{.kind = Message::Kind::retry, .workflow = id, .name = as, .value = {}})));
  static_cast<void>(store_->apply(txn));
}

void Queries::send(const std::string& id, Message message, std::string_view message_id,
                   Durability durability, Revision record) const {
  const keys::Partition partition = partition_of(id);
  message.workflow = id;
  Txn txn;
  txn.durability = durability;
  txn.writes.push_back(Write::append(keys::inbox(partition), encode(message)));
  if (!message_id.empty()) {
    const std::string used = keys::message(partition, id, message_id);
    txn.guards.push_back(Guard::absent(used));
    txn.writes.push_back(Write::put(used, ""));
    txn.reads.push_back(Range::key(used));
  }
  // The record changes only when the workflow ends or continues as new.
  txn.guards.push_back(Guard::unchanged(keys::record(partition, id), record));
  while (true) {
    if (record != Revision{}) {
      txn.guards.back().revision = record;
      const Outcome outcome = store_->apply(txn);
      if (outcome.committed) return;
      if (!message_id.empty() && !outcome.reads.front().empty()) return;  // Sent before.
    }
    const Entry found = record_of(id);
    if (!message_id.empty() && !read(*store_, txn.reads.front()).empty()) return;  // Sent before.
    const FlowState state = parsed_record(found).state;
    if (is_terminal(state)) {
      throw WorkflowEnded("workflow '" + id + "' has ended (" + std::string{text_of(state)} +
                          "): it takes no messages any more");
    }
    record = found.changed;
  }
}

}  // namespace tenure::flow

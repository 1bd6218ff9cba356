#include "flow/queues.hpp"

#include <algorithm>
#include <expected>
#include <vector>

#include "tenure/error.hpp"

namespace tenure::flow {

std::string encode(const QueueEntry& entry) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(entry.seat >> shift);
  return bytes + entry.id;
}

QueueEntry decode_queue_entry(std::string_view bytes) {
  if (bytes.size() < 4) throw Error("an entry of a queue is cut off");
  return {.seat = keys::order_of(bytes.substr(0, 4)), .id = std::string{bytes.substr(4)}};
}

std::string queue_key(const Record& record, Revision changed) {
  return keys::queue(keys::places_of_seat(record.seat)) + stamp(changed);
}

bool Queues::queueing(const std::string& places) {
  const base::Mutex::Scoped lock{mutex_};
  return queueing_.contains(places);
}

void Queues::saw(const std::string& places, bool queueing) {
  const base::Mutex::Scoped lock{mutex_};
  if (queueing) {
    queueing_.insert(places);
  } else {
    queueing_.erase(places);
  }
}

bool Queues::reserve(const std::string& places, const std::string& entry) {
  const base::Mutex::Scoped lock{mutex_};
  return reserved_[places].insert(entry).second;
}

std::uint32_t Queues::reserved(const std::string& places) {
  const base::Mutex::Scoped lock{mutex_};
  const auto at = reserved_.find(places);
  return at == reserved_.end() ? 0 : static_cast<std::uint32_t>(at->second.size());
}

void Queues::done(const Handover& handover, bool committed) {
  if (handover.places.empty()) return;
  const base::Mutex::Scoped lock{mutex_};
  if (!committed) queueing_.insert(handover.places);  // Look before the next try.
  if (handover.entry.empty()) return;
  const auto at = reserved_.find(handover.places);
  if (at == reserved_.end()) return;
  at->second.erase(handover.entry);
  if (at->second.empty()) reserved_.erase(at);
}

Queues::Handover Queues::give_back(Store& store, std::uint32_t partitions, const std::string& place,
                                   Txn& txn) {
  Handover handover;
  handover.places = place.substr(0, place.size() - 4);
  const std::string state = keys::queue_state(handover.places);
  while (queueing(handover.places)) {
    Txn read;
    read.reads.push_back(Range::key(state));
    read.reads.push_back(
        Range::prefix(keys::queue(handover.places)).first(reserved(handover.places) + 1));
    const Outcome seen = store.apply(read);
    if (seen.reads[0].empty()) {
      saw(handover.places, false);
      break;
    }
    const auto next = std::ranges::find_if(
        seen.reads[1], [&](const Entry& entry) { return reserve(handover.places, entry.key); });
    if (next == seen.reads[1].end()) {
      // Those in line, if any, get places of ends that commit before this one.
      txn.guards.push_back(Guard::present(state));
      txn.guards.push_back(Guard::empty(Range::prefix(keys::queue(handover.places))));
      txn.writes.push_back(Write::remove(state));
      txn.writes.push_back(Write::remove(place));
      return handover;
    }
    handover.entry = next->key;
    const QueueEntry first = decode_queue_entry(next->value);
    const keys::Partition partition = keys::partition_of(first.id, partitions);
    const std::string key = keys::record(partition, first.id);
    Txn read_record;
    read_record.reads.push_back(Range::key(key));
    std::vector<Entry> found;
    try {
      found = std::move(store.apply(read_record).reads.front());
    } catch (...) {
      done(handover, false);
      throw;
    }
    std::expected<Record, std::string> record =
        found.empty() ? std::unexpected("it has none") : decode_record(found.front().value);
    if (!record || record->state != FlowState::queued) {  // Cancelled in between: look again.
      done(handover, true);
      handover.entry.clear();
      continue;
    }
    handover.seat = record->seat;
    handover.removes = false;
    record->state = FlowState::running;
    record->starts = std::max(record->starts, store.now());  // Its clock begins with its place.
    record->admission = place;
    record->seat.clear();
    txn.guards.push_back(Guard::present(handover.entry));
    txn.guards.push_back(Guard::unchanged(key, found.front().changed));
    txn.writes.push_back(Write::remove(handover.entry));
    txn.writes.push_back(Write::remove(handover.seat));
    txn.writes.push_back(Write::put(place, first.id));
    txn.writes.push_back(Write::put(key, encode(*record)));
    txn.writes.push_back(Write::append(
        keys::trigger_inbox(partition, 'q'),
        encode(
            Message{.kind = Message::Kind::start, .workflow = first.id, .name = {}, .value = {}})));
    return handover;
  }
  txn.guards.push_back(Guard::absent(state));
  txn.writes.push_back(Write::remove(place));
  return handover;
}

}  // namespace tenure::flow

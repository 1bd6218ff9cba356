// The stream of changes that feeds Watches.
#include <algorithm>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "base/backoff.hpp"
#include "rpc.pb.h"
#include "store/etcd/numbers.hpp"
#include "store/etcd/watches.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;
constexpr auto first_reconnect_pause = 20ms;
constexpr std::chrono::milliseconds longest_reconnect_pause = 1s;

}  // namespace

void Watches::read_stream() {
  pb::WatchResponse response;
  base::Backoff backoff{first_reconnect_pause, longest_reconnect_pause};
  std::random_device random;
  for (;;) {
    if (begin()) {
      while (changes_.next(response)) {
        backoff.reset();
        take(response);
      }
    }
    const Lock lock{table_.mutex};
    if (live_) end();
    if (stopping_) return;
    if (backoff.at_cap()) {
      table_.all_due();
      work_.notify_one();
    }
    stopped_.wait_for(table_.mutex, backoff.next(random));
    if (stopping_) return;
  }
}

// All watches that wait for changes are judged when the stream tells of them.
bool Watches::begin() {
  if (!changes_.open(executor_->client(), executor_->layout().head())) return false;
  const Lock lock{table_.mutex};
  live_ = true;
  fresh_ = table_.armed();
  ++stream_number_;
  work_.notify_one();
  return true;
}

void Watches::end() {
  live_ = false;
  interests_.lose();
  asked_.clear();
  unneeded_.clear();
  since_.reset();
  lease_since_.clear();
  fresh_.clear();
}

// The revision of a removal, which moves no head.
Revision Watches::revision_of(std::int64_t by_etcd) {
  if (by_etcd < head_put_at_) return floor_;  // Before the beginning of the stream.
  if (is_exact(head_put_at_, by_etcd)) return revision_at(head_, head_put_at_, by_etcd);
  // It has no number of its own. It counts as newer than everything, and later watches must read.
  floor_ = std::max(floor_, Revision{head_.value + apart});
  return this_apply;
}

// All events of one revision of etcd's are in one response.
void Watches::take(const pb::WatchResponse& response) {
  const Lock lock{table_.mutex};
  const std::int64_t id = response.watch_id();
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  if (response.created()) {
    asked->second.created = true;
    asked->second.since = response.header().revision();
    work_.notify_one();
    return;
  }
  const auto& events = response.events();
  heard_ += static_cast<std::uint64_t>(events.size());
  if (!asked->second.name.empty()) {
    for (const pb::Event& event : events) take_key(event, id);
    work_.notify_one();
    return;
  }
  for (int first = 0, last = 0; first < events.size(); first = last) {
    const std::int64_t number = events.Get(first).kv().mod_revision();
    while (last < events.size() && events.Get(last).kv().mod_revision() == number) ++last;
    take_step({events.data() + first, events.data() + last}, number);
  }
  work_.notify_one();
}

// An event of a watch of one key. Only a put says which revision of ours it is. A removal counts as
// newer than everything, and the key is read again for later watches.
void Watches::take_key(const pb::Event& event, std::int64_t id) {
  const pb::KeyValue& kv = event.kv();
  const Layout& layout = executor_->layout();
  if (const auto session = layout.lease_key_at(kv.key())) {
    if (event.type() == pb::Event::DELETE) died(std::string{*session});
    return;
  }
  const auto key = layout.entry_at(kv.key());
  if (!key) return;
  if (event.type() == pb::Event::DELETE) {
    executor_->key_removed(*key);
    changed(this_apply, *key);
    const auto asked = asked_.find(id);
    if (asked == asked_.end() || !asked->second.held) return;
    asked->second.held = false;
    if (interests_.forget(asked->second.name)) return;  // read_interests() reads it again.
    unneeded_.push_back(id);
    asked_.erase(asked);
    return;
  }
  try {
    changed(parse_value(kv.value()).changed, *key);
  } catch (const StoreError&) {  // Not written by this version.
    changed(this_apply, *key);
  }
}

// The event of the head says which revision of ours it is.
void Watches::take_step(std::span<const pb::Event* const> events, std::int64_t number) {
  const Layout& layout = executor_->layout();
  const std::string head = layout.head();
  const std::string tail = layout.tail();
  Revision revision = floor_;
  bool moved = false;
  bool removed = false;
  for (const pb::Event* const event : events) {
    const pb::KeyValue& kv = event->kv();
    removed = removed || kv.key() == tail || layout.entry_at(kv.key());
    if (kv.key() != head || event->type() != pb::Event::PUT) continue;
    Head put;
    try {
      put = parse_head(kv.value());
    } catch (const StoreError&) {
      continue;  // Not written by this version; the next apply reports it to its caller.
    }
    moved = true;
    revision = put.revision;
    executor_->clock().see(put.revision);
    executor_->clock().see(put.time);
  }
  if (moved && number > head_put_at_) {
    head_ = revision;
    head_put_at_ = number;
  }
  if (!moved && removed) revision = revision_of(number);
  for (const pb::Event* const event : events) {
    if (const auto key = layout.entry_at(event->kv().key())) {
      if (event->type() == pb::Event::DELETE) executor_->key_removed(*key);
      changed(revision, *key);
    }
    const auto session = layout.lease_key_at(event->kv().key());
    if (session && event->type() == pb::Event::DELETE) died(std::string{*session});
  }
  if (revision != this_apply) newest_ = std::max(newest_, revision);
}

void Watches::changed(Revision revision, std::string_view key) {
  table_.changed(key, revision);
  if (revision == this_apply || revision <= floor_) return;
  recent_.push_back({.revision = revision, .key = std::string{key}});
  if (recent_.size() <= max_recent) return;
  floor_ = recent_.front().revision;
  recent_.pop_front();
}

}  // namespace tenure::etcd

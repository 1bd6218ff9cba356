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
      backoff.reset();
      while (changes_.next(response)) take(response);
    }
    const Lock lock{table_.mutex};
    live_ = false;
    if (stopping_) return;
    if (backoff.at_cap()) {
      table_.all_due();
      work_.notify_one();
    }
    stopped_.wait_for(table_.mutex, backoff.next(random));
    if (stopping_) return;
  }
}

// Reads the head after the stream has begun: changes newer than the head will arrive on the stream.
bool Watches::begin() {
  const Layout& layout = executor_->layout();
  if (!changes_.open(executor_->client(), layout.head(), layout.end())) return false;
  Executor::PositionNow now;
  try {
    now = executor_->read_position();
  } catch (...) {
    return false;
  }
  const Lock lock{table_.mutex};
  const Position& position = now.position;
  if (position.newest != newest_ || floor_ == Revision{}) {
    recent_.clear();
    floor_ = position.newest;
    newest_ = position.newest;
  }
  live_ = true;
  head_ = position.head.revision;
  head_put_at_ = position.put_at;
  since_ = now.by_etcd;
  table_.due_if([this](const WatchFor& what) TENURE_REQUIRES(table_.mutex) { return due(what); });
  for (const std::string& session : table_.sessions()) ask_about(session);
  work_.notify_one();
  return true;
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
  const auto& events = response.events();
  for (int first = 0, last = 0; first < events.size(); first = last) {
    const std::int64_t number = events.Get(first).kv().mod_revision();
    while (last < events.size() && events.Get(last).kv().mod_revision() == number) ++last;
    take_step({events.data() + first, events.data() + last}, number);
  }
  work_.notify_one();
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

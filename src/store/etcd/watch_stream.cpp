// The stream of changes that feeds Watches.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
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
  if (!changes_.open(executor_->client(), executor_->layout().head(other_order))) return false;
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
  since_.reset();
  lease_since_.clear();
  fresh_.clear();
}

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
  const bool everything = asked->second.name.empty();
  for (const pb::Event& event : events) take_event(event, everything);
  work_.notify_one();
}

void Watches::take_event(const pb::Event& event, bool of_everything) {
  const pb::KeyValue& kv = event.kv();
  const Layout& layout = executor_->layout();
  const bool removed = event.type() == pb::Event::DELETE;
  if (const auto key = layout.entry_at(kv.key())) {
    if (removed) executor_->key_removed(*key);
    const Revision revision{static_cast<std::uint64_t>(kv.mod_revision())};
    if (of_everything) newest_ = std::max(newest_, revision);
    changed(revision, *key);
  }
  const auto session = layout.lease_key_at(kv.key());
  if (session && removed) died(std::string{*session});
}

void Watches::changed(Revision revision, std::string_view key) {
  table_.changed(key, revision);
  if (revision <= floor_) return;
  // Events of different etcd watches may arrive in another order than the commits.
  auto at = recent_.end();
  while (at != recent_.begin() && std::prev(at)->revision > revision) --at;
  recent_.insert(at, {.revision = revision, .key = std::string{key}});
  if (recent_.size() <= max_recent) return;
  floor_ = recent_.front().revision;
  recent_.pop_front();
}

}  // namespace tenure::etcd

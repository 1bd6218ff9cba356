// The head of a store: where it is, how it is passed, and what was seen of it.
#include <algorithm>
#include <tuple>

#include "store/etcd/executor.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/plan.hpp"

namespace tenure::etcd {

Executor::Where Executor::where() {
  pb::RangeRequest request;
  request.set_key(layout_.head());
  request.set_range_end(layout_.tail_end());
  pb::RangeResponse response;
  const std::int64_t asked = boot_ns();
  client_.range(request, response);
  see(response.header().revision(), asked);
  const Position position = parse_position(layout_, response).value_or(Position{});
  return {.head = position.head.revision,
          .put_at = position.put_at,
          .newest = position.newest,
          .by_etcd = response.header().revision()};
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
void Executor::see(std::int64_t by_etcd, std::int64_t asked_ns) noexcept {
  std::int64_t old = by_etcd_.load(std::memory_order_relaxed);
  while (old < by_etcd && !by_etcd_.compare_exchange_weak(old, by_etcd)) {
  }
  if (old <= by_etcd) seen_ns_.store(asked_ns, std::memory_order_relaxed);
}

void Executor::make_head() {
  pb::TxnRequest request;
  pb::Compare* const absent = request.add_compare();
  absent->set_target(pb::Compare::CREATE);
  absent->set_result(pb::Compare::EQUAL);
  absent->set_key(layout_.head());
  absent->set_create_revision(0);
  pb::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key(layout_.head());
  put->set_value(head_value({.revision = Revision{clock_.propose()}, .time = clock_.now()}));
  pb::TxnResponse response;
  client_.txn(request, response, false);  // Twice is as good as once.
}

std::int64_t Executor::pass(std::uint64_t last) {
  own_.forget();
  for (;;) {
    const Revision beyond{std::max(clock_.propose(), (last / apart + 1) * apart)};
    pb::TxnRequest request;
    pb::Compare* const behind = request.add_compare();
    behind->set_target(pb::Compare::VALUE);
    behind->set_result(pb::Compare::LESS);
    behind->set_key(layout_.head());
    behind->set_value(stamp(beyond));
    pb::PutRequest* const put = request.add_success()->mutable_request_put();
    put->set_key(layout_.head());
    put->set_value(head_value({.revision = beyond, .time = clock_.unique_time()}));
    request.add_failure()->mutable_request_range()->set_key(layout_.head());
    pb::TxnResponse response;
    client_.txn(request, response, false);  // Twice is as good as once.
    if (response.succeeded()) {
      clock_.see(beyond);
      return response.header().revision();
    }
    const pb::RangeResponse& found = response.responses(0).response_range();
    if (!found.kvs().empty()) return found.kvs(0).mod_revision();  // Others have passed it.
    make_head();
  }
}

Position Executor::position_at(std::int64_t by_etcd) {
  pb::RangeRequest request;
  request.set_key(layout_.head());
  request.set_range_end(layout_.tail_end());
  request.set_revision(by_etcd);
  pb::RangeResponse response;
  client_.range(request, response);
  return parse_position(layout_, response).value_or(Position{});
}

void Executor::leave_open(std::uint64_t last) noexcept {
  std::uint64_t old = open_.load();
  while (old < last && !open_.compare_exchange_weak(old, last)) {
  }
}

void Executor::close_open() {
  std::uint64_t last = open_.load();
  if (last == 0) return;
  std::ignore = pass(last);
  open_.compare_exchange_strong(last, 0);
}

Executor::Life Executor::read_lease_key(std::string_view id) {
  pb::RangeRequest request;
  request.set_key(layout_.lease_key(id));
  request.set_keys_only(true);
  pb::RangeResponse response;
  client_.range(request, response);
  return {.alive = !response.kvs().empty(), .at = response.header().revision()};
}

Executor::Counts Executor::counts() const noexcept {
  return {.commits = commits_.load(),
          .round_trips = round_trips_.load(),
          .outrun = outrun_.load(),
          .surprised = surprised_.load(),
          .later_proposals = later_.load(),
          .proposals = proposed_.load(),
          .disturbed = disturbed_.load()};
}

}  // namespace tenure::etcd

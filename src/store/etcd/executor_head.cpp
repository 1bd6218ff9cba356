// The head of a store: reading it, putting the first one, and moving it past lost requests.
#include <algorithm>
#include <tuple>

#include "store/etcd/executor.hpp"
#include "store/etcd/form.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/requests.hpp"

namespace tenure::etcd {
namespace {

// No cluster makes `max_age` revisions in this time.
constexpr std::int64_t longest_unseen_ns = 500'000'000;

}  // namespace

Executor::PositionNow Executor::read_position() {
  pb::RangeResponse response;
  const std::int64_t asked = boot_ns();
  client_.range(position_request(layout_), response);
  const std::int64_t by_etcd = response.header().revision();
  see(by_etcd, asked);
  return {.position = parse_position(layout_, response).value_or(Position{}), .by_etcd = by_etcd};
}

Executor::ValuesNow Executor::read_values(std::span<const std::string> etcd_keys) {
  pb::TxnRequest request;
  *request.add_success()->mutable_request_range() = position_request(layout_);
  for (const std::string& key : etcd_keys) {
    request.add_success()->mutable_request_range()->set_key(key);
  }
  pb::TxnResponse response;
  const std::int64_t asked = boot_ns();
  client_.txn(request, response, false);
  ValuesNow now{.newest = {}, .by_etcd = response.header().revision(), .values = {}};
  see(now.by_etcd, asked);
  const auto position = parse_position(layout_, response.responses(0).response_range());
  now.newest = position.value_or(Position{}).newest;
  for (int i = 1; i < response.responses_size(); ++i) {
    const auto& kvs = response.responses(i).response_range().kvs();
    now.values.emplace_back();
    if (!kvs.empty()) now.values.back() = kvs.Get(0).value();
  }
  return now;
}

Position Executor::position_at(std::int64_t by_etcd) {
  pb::RangeRequest request = position_request(layout_);
  request.set_revision(by_etcd);
  pb::RangeResponse response;
  client_.range(request, response);
  return parse_position(layout_, response).value_or(Position{});
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
void Executor::see(std::int64_t by_etcd, std::int64_t asked_ns) noexcept {
  std::int64_t old = by_etcd_.load(std::memory_order_relaxed);
  while (old < by_etcd && !by_etcd_.compare_exchange_weak(old, by_etcd)) {
  }
  if (old <= by_etcd) seen_ns_.store(asked_ns, std::memory_order_relaxed);
}

Proposer::Seen Executor::seen() const noexcept {
  return {.newest = by_etcd_.load(), .recently = boot_ns() - seen_ns_.load() < longest_unseen_ns};
}

void Executor::make_head() {
  const Head head{.revision = Revision{clock_.propose()}, .time = clock_.now()};
  pb::TxnResponse response;
  // Not a change for the client: a second attempt does no harm.
  client_.txn(MakeHeadForm::build(layout_, head), response, false);
}

std::int64_t Executor::pass(std::uint64_t last) {
  sole_writer_.forget();
  for (;;) {
    const Head beyond{.revision = Revision{std::max(clock_.propose(), (last / apart + 1) * apart)},
                      .time = clock_.unique_time()};
    pb::TxnResponse response;
    // Not a change for the client: a second attempt does no harm.
    client_.txn(PassHeadForm::build(layout_, beyond), response, false);
    if (response.succeeded()) clock_.see(beyond.revision);
    if (const auto put_at = PassHeadForm::parse(response)) return *put_at;
    make_head();
  }
}

void Executor::leave_unresolved(std::uint64_t last) noexcept {
  std::uint64_t old = unresolved_.load();
  while (old < last && !unresolved_.compare_exchange_weak(old, last)) {
  }
}

void Executor::pass_unresolved() {
  std::uint64_t last = unresolved_.load();
  if (last == 0) return;
  std::ignore = pass(last);
  unresolved_.compare_exchange_strong(last, 0);
}

Executor::Life Executor::read_lease_key(std::string_view id) {
  pb::RangeRequest request;
  request.set_key(layout_.lease_key(id));
  request.set_keys_only(true);
  pb::RangeResponse response;
  client_.range(request, response);
  return {.alive = !response.kvs().empty(), .at = response.header().revision()};
}

}  // namespace tenure::etcd

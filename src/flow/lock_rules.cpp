// The rules of the durable semaphore: pure functions from record to record.
#include <algorithm>
#include <ranges>

#include "tenure/detail/saturating.hpp"
#include "tenure/state.hpp"

namespace tenure {
namespace {

using Party = LockRecord::Party;
using Parties = std::vector<Party>;

void check_lease(std::chrono::nanoseconds lease) {
  if (lease > std::chrono::nanoseconds::zero()) return;
  throw BadRequest("a lease must be greater than zero, but is " + std::to_string(lease.count()) +
                   " ns");
}

std::chrono::nanoseconds lease_of(const SemaphoreOptions& options, const LockCall& call) {
  const std::chrono::nanoseconds lease = call.lease.value_or(options.lease);
  check_lease(lease);
  return lease;
}

void check_holder(const LockCall& call) {
  if (call.holder.empty()) throw BadRequest("a holder's id must not be empty");
}

Parties::iterator find(Parties& parties, const std::string& id) {
  return std::ranges::find(parties, id, &Party::id);
}

// Rule 1. The caller is there, so its place in the queue is kept.
void remove_expired(LockRecord& record, const LockCall& call) {
  const auto over = [&call](const Party& party) { return party.until <= call.now; };
  std::erase_if(record.holders, over);
  std::erase_if(record.waiters,
                [&](const Party& party) { return over(party) && party.id != call.holder; });
}

void check_permits(const SemaphoreOptions& options, const LockRecord& record) {
  if (record.permits == options.permits) return;
  throw LimitMismatch("this semaphore is used with different limits: the caller asks for " +
                      std::to_string(options.permits) + " permits, its record has " +
                      std::to_string(record.permits) + "; use the same number everywhere");
}

}  // namespace

lock_rules::Acquired lock_rules::try_acquire(const SemaphoreOptions& options, const LockCall& call,
                                             const std::optional<LockRecord>& record) {
  check_holder(call);
  const std::chrono::nanoseconds lease = lease_of(options, call);
  const Instant until = detail::saturating_add(call.now, lease);
  LockRecord next = record.value_or(LockRecord{});
  remove_expired(next, call);
  if (next.holders.empty() && next.waiters.empty()) next.permits = options.permits;
  check_permits(options, next);

  const auto put = [&next](Acquisition result) {
    return Acquired{Acquired::Kind::put, std::move(next), result};
  };
  if (const auto holder = find(next.holders, call.holder); holder != next.holders.end()) {
    holder->until = std::max(holder->until, until);
    return put({.acquired = true, .position = -1});
  }
  auto waiter = find(next.waiters, call.holder);
  if (waiter == next.waiters.end()) {
    next.waiters.push_back({.id = call.holder, .until = until});
    waiter = std::prev(next.waiters.end());
  }
  const auto ahead = static_cast<std::size_t>(waiter - next.waiters.begin());
  if (next.holders.size() + ahead < next.permits) {
    next.waiters.erase(waiter);
    next.holders.push_back({.id = call.holder, .until = until});
    return put({.acquired = true, .position = -1});
  }
  const Acquisition waits{.acquired = false, .position = static_cast<int>(ahead)};
  // A poll is not a write: the record of a long queue is written when a lease is half over.
  if (next == record && detail::saturating_sub(waiter->until, call.now) > lease / 2) {
    return {Acquired::Kind::keep, {}, waits};
  }
  waiter->until = std::max(waiter->until, until);
  return put(waits);
}

lock_rules::Changed lock_rules::release(const LockCall& call,
                                        const std::optional<LockRecord>& record) {
  check_holder(call);
  LockRecord next = record.value_or(LockRecord{});
  const auto mine = [&call](const Party& party) { return party.id == call.holder; };
  const auto held = std::erase_if(next.holders, mine);
  const auto waited = std::erase_if(next.waiters, mine);
  if (held + waited == 0) return {Changed::Kind::keep, {}, false};
  remove_expired(next, call);
  return {Changed::Kind::put, std::move(next), true};
}

lock_rules::Changed lock_rules::renew(const SemaphoreOptions& options, const LockCall& call,
                                      const std::optional<LockRecord>& record) {
  check_holder(call);
  const Instant until = detail::saturating_add(call.now, lease_of(options, call));
  LockRecord next = record.value_or(LockRecord{});
  const auto holder = find(next.holders, call.holder);
  if (holder == next.holders.end() || holder->until <= call.now) {
    return {Changed::Kind::keep, {}, false};
  }
  check_permits(options, next);
  holder->until = std::max(holder->until, until);
  return {Changed::Kind::put, std::move(next), true};
}

DurableSemaphore::DurableSemaphore(SemaphoreOptions options) : options_(options) {
  if (options.permits == 0) throw BadRequest("a semaphore must have at least 1 permit");
  check_lease(options.lease);
}

void to_json(nlohmann::json& json, const LockRecord& record) {
  const auto parties = [](const Parties& all) {
    nlohmann::json list = nlohmann::json::array();
    for (const Party& party : all) {
      list.push_back({{"id", party.id}, {"until", party.until.time_since_epoch().count()}});
    }
    return list;
  };
  json = {{"permits", record.permits},
          {"holders", parties(record.holders)},
          {"waiters", parties(record.waiters)}};
}

void to_json(nlohmann::json& json, const Acquisition& acquisition) {
  json = {{"acquired", acquisition.acquired}, {"position", acquisition.position}};
}

void from_json(const nlohmann::json& json, Acquisition& acquisition) {
  acquisition.acquired = json.at("acquired").get<bool>();
  acquisition.position = json.at("position").get<int>();
}

void from_json(const nlohmann::json& json, LockRecord& record) {
  const auto parties = [](const nlohmann::json& list) {
    Parties all;
    for (const nlohmann::json& party : list) {
      all.push_back(
          {.id = party.at("id").get<std::string>(),
           .until = Instant{std::chrono::nanoseconds{party.at("until").get<std::int64_t>()}}});
    }
    return all;
  };
  record.permits = json.at("permits").get<std::uint32_t>();
  record.holders = parties(json.at("holders"));
  record.waiters = parties(json.at("waiters"));
}

}  // namespace tenure

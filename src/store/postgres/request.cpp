#include "store/postgres/request.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace tenure::postgres {
namespace {

using Numbers = std::vector<std::optional<std::int64_t>>;

// Larger than every key.
const std::string& top() {
  static const std::string bytes(max_key_size + 1, '\xff');
  return bytes;
}

std::int64_t number_of(Revision revision) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(revision.value, most));
}

struct Guards {
  Numbers kinds;
  Params::Bytes froms;
  Params::Bytes tos;
  Numbers revisions;

  void add(const Guard& guard) {
    const bool wide = guard.kind == Guard::Kind::quiet;
    kinds.emplace_back(static_cast<std::int64_t>(guard.kind));
    froms.emplace_back(guard.range.from);
    tos.emplace_back(wide ? end_of(guard.range) : std::string_view{});
    // A revision beyond bigint equals no revision that exists.
    const bool odd = !wide && number_of(guard.revision) == std::numeric_limits<std::int64_t>::max();
    revisions.emplace_back(odd ? -1 : number_of(guard.revision));
  }
  void add_to(Params& params) const {
    params.add(kinds);
    params.add(froms);
    params.add(tos);
    params.add(revisions);
  }
};

void add_reads(Params& params, const std::vector<Range>& reads) {
  Params::Bytes froms;
  Params::Bytes tos;
  Numbers limits;
  Numbers skips;
  std::vector<bool> backwards;
  std::vector<std::string> stamps;
  stamps.reserve(reads.size());
  for (const Range& range : reads) {
    froms.emplace_back(range.from);
    tos.emplace_back(end_of(range));
    limits.push_back(range.limit == 0 ? std::nullopt : std::optional<std::int64_t>{range.limit});
    skips.emplace_back(range.skip);
    backwards.push_back(range.reverse);
    stamps.push_back(stamp(range.before));
  }
  Params::Bytes befores;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    befores.push_back(reads[i].before == Revision{} ? std::nullopt
                                                    : std::optional<std::string_view>{stamps[i]});
  }
  params.add(froms);
  params.add(tos);
  params.add(limits);
  params.add(skips);
  params.add(backwards);
  params.add(befores);
}

void add(Params& params, const Buckets& buckets) {
  params.add(Numbers{buckets.list().begin(), buckets.list().end()});
}

void add_writes(Params& params, const NetWrites& net) {
  params.add(Params::Bytes(net.removes.begin(), net.removes.end()));
  for (const auto& list : {net.puts, net.appends}) {
    Params::Bytes keys;
    Params::Bytes values;
    for (const Write* write : list) {
      keys.emplace_back(write->key);
      values.emplace_back(write->value);
    }
    params.add(keys);
    params.add(values);
  }
}

}  // namespace

std::string_view end_of(const Range& range) { return range.to.empty() ? top() : range.to; }

NetWrites net_writes(const std::vector<Write>& writes) {
  struct Fate {
    bool removed = false;
    const Write* put = nullptr;
  };
  NetWrites net;
  std::unordered_map<std::string_view, Fate> fates;
  std::unordered_map<std::string_view, std::size_t> appended;
  for (const Write& write : writes) {
    if (write.kind == Write::Kind::append) {
      const auto [at, fresh] = appended.emplace(write.key, net.appends.size());
      if (fresh) {
        net.appends.push_back(&write);
      } else {
        net.appends[at->second] = &write;
      }
    } else if (write.kind == Write::Kind::remove) {
      fates[write.key] = {.removed = true, .put = nullptr};
    } else {
      fates[write.key].put = &write;
    }
  }
  for (const auto& [key, fate] : fates) {
    if (fate.removed) net.removes.push_back(key);
    if (fate.put != nullptr) net.puts.push_back(fate.put);
  }
  return net;
}

void check_size(const Txn& txn) {
  std::size_t total = 0;
  for (const Write& write : txn.writes) {
    const std::size_t size =
        write.key.size() + (write.kind == Write::Kind::append ? stamp_size : 0);
    if (size > max_key_size) {
      throw BadRequest("a key of " + std::to_string(size) +
                       " bytes is too long for PostgreSQL: the limit is " +
                       std::to_string(max_key_size) + " bytes");
    }
    total += size + write.value.size();
  }
  if (total > max_request_size) {
    throw BadRequest("a transaction of " + std::to_string(total) +
                     " bytes is too large: the limit is " + std::to_string(max_request_size) +
                     " bytes; split it");
  }
}

namespace {

void add(Params& params, const std::vector<Guard>& guards) {
  Guards all;
  for (const Guard& guard : guards) all.add(guard);
  all.add_to(params);
}

std::int64_t told_in(std::string_view key, const Buckets& buckets) {
  return notice_bucket(key).value_or(buckets.lowest());
}

}  // namespace

Params look_params(const Txn& txn, int bucket) {
  Params params;
  add(params, txn.guards);
  add_reads(params, txn.reads);
  params.add_number(bucket);
  return params;
}

Params change_params(const Txn& txn, const Buckets& buckets) {
  Params params;
  add(params, txn.guards);
  const NetWrites net = net_writes(txn.writes);
  add_writes(params, net);
  add_reads(params, txn.reads);
  params.add_flag(is_durable(txn));
  add(params, buckets);
  Numbers told;
  for (const std::string_view key : net.removes) told.emplace_back(told_in(key, buckets));
  for (const auto& list : {net.puts, net.appends}) {
    for (const Write* write : list) told.emplace_back(told_in(write->key, buckets));
  }
  params.add(told);
  return params;
}

Params params_of(std::span<const stores::Posting> postings, const Buckets& buckets) {
  Numbers guard_txns;
  Guards guards;
  Numbers txns;
  Numbers kinds;
  Params::Bytes keys;
  Params::Bytes values;
  Numbers told;
  std::int64_t place = 0;
  const auto write = [&](Write::Kind kind, std::string_view key, std::string_view value) {
    txns.emplace_back(place);
    kinds.emplace_back(static_cast<std::int64_t>(kind));
    keys.emplace_back(key);
    values.emplace_back(value);
    told.emplace_back(told_in(key, buckets));
  };
  for (const stores::Posting& posting : postings) {
    ++place;
    for (const Guard& guard : posting.txn.guards) {
      guard_txns.emplace_back(place);
      guards.add(guard);
    }
    const NetWrites net = net_writes(posting.txn.writes);
    for (const std::string_view key : net.removes) write(Write::Kind::remove, key, {});
    for (const Write* one : net.puts) write(one->kind, one->key, one->value);
    for (const Write* one : net.appends) write(one->kind, one->key, one->value);
  }
  Params params;
  params.add_number(place);
  params.add(guard_txns);
  guards.add_to(params);
  params.add(txns);
  params.add(kinds);
  params.add(keys);
  params.add(values);
  add(params, buckets);
  params.add(told);
  return params;
}

bool is_durable(const Txn& txn) {
  return txn.durability == Durability::full ||
         std::ranges::any_of(txn.writes,
                             [](const Write& write) { return write.kind != Write::Kind::remove; });
}

Answer answer_of(const Txn& txn, const Result& result) {
  Answer answer;
  Outcome& outcome = answer.outcome;
  outcome.committed = result.flag(0, 0);
  outcome.revision.value = static_cast<std::uint64_t>(result.number(0, 1));
  answer.clock_ns = result.number(0, 2);
  outcome.reads.resize(txn.reads.size());
  if (txn.reads.empty() || result.null(0, 3)) return answer;
  fill_reads(txn,
             {result.bytes(0, 3), result.bytes(0, 4), result.bytes(0, 5), result.bytes(0, 6),
              result.bytes(0, 7)},
             outcome);
  return answer;
}

void fill_reads(const Txn& txn, const std::vector<std::string_view>& taken, Outcome& outcome) {
  if (taken.at(0).empty()) return;  // Null: nothing was found.
  const auto places = elements_in(taken.at(0));
  const auto keys = elements_in(taken.at(1));
  const auto values = elements_in(taken.at(2));
  const auto created = elements_in(taken.at(3));
  const auto changed = elements_in(taken.at(4));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<std::size_t>(number_in(places[i])) - 1;
    outcome.reads.at(place).push_back(
        {.key = std::string{keys.at(i)},
         .value = std::string{values.at(i)},
         .created = {static_cast<std::uint64_t>(number_in(created.at(i)))},
         .changed = {static_cast<std::uint64_t>(number_in(changed.at(i)))}});
  }
  for (std::size_t i = 0; i < txn.reads.size(); ++i) {
    std::ranges::sort(outcome.reads[i], {}, &Entry::key);
    if (txn.reads[i].reverse) std::ranges::reverse(outcome.reads[i]);
  }
}

}  // namespace tenure::postgres

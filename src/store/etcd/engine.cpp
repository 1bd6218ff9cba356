#include "store/etcd/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "store/etcd/plan.hpp"

namespace tenure::etcd {
namespace {

// How far ahead of the first the last proposal of a request is: twice the time that one takes,
// since that is what others can be ahead by; those between are half as far each. A proposal further
// ahead than needed would put all others behind in turn.
constexpr std::uint64_t min_lead_us = 1'000;
constexpr std::uint64_t max_lead_us = 2'000'000;
// A request that was outrun goes further each time, up to so many times as far.
constexpr unsigned max_further = 16;
constexpr int max_attempts = 10'000;
constexpr std::int64_t page = 256;
// So many commits after the last that others outran, requests carry several proposals.
constexpr int race_memory = 64;

std::vector<std::uint64_t> propose(Clock& clock, std::size_t count, unsigned outrun,
                                   std::uint64_t round_trip_us) {
  std::vector<std::uint64_t> all;
  if (count == 0) return all;
  const std::uint64_t lead =
      std::clamp(round_trip_us * 2, min_lead_us, max_lead_us) * (1 + std::min(outrun, max_further));
  all.push_back(clock.propose());
  for (std::size_t i = 1; i < count; ++i) {
    all.push_back(std::max(all.back() + 1, all.front() + (lead >> (count - 1 - i))));
  }
  return all;
}

}  // namespace

// One apply: its plan, and as many requests as it takes.
class Engine::Attempt {
 public:
  Attempt(Engine& engine, const Txn& txn, const Mark* mark)
      : engine_(engine), txn_(txn), mark_(mark) {}

  Outcome run() {
    for (int i = 0; i < max_attempts; ++i) {
      if (auto outcome = once()) return *std::move(outcome);
    }
    throw StoreError("etcd at " + engine_.client_.address().text() +
                     ": others write so fast that this step does not get through: try again");
  }

 private:
  using Kind = Plan::Result::Kind;

  std::optional<Outcome> once() {
    Plan plan{engine_.layout_, engine_.memo_, txn_, mark_};
    if (!plan.open_questions().empty()) {
      if (auto refused = ask(plan)) return refused;
    }
    // Alone, one is enough, and each further one makes the request longer by all that it writes.
    const std::size_t most = engine_.race_.load() > 0 ? plan.proposals() : std::size_t{1};
    const auto proposals = propose(engine_.clock_, std::min(most, plan.proposals()), outrun_,
                                   engine_.round_trip_us_.load());
    pb::TxnResponse response;
    const std::int64_t sent = boot_clock_ns();
    engine_.client_.txn(plan.request(proposals, engine_.clock_.now()), response, plan.writes());
    if (plan.writes()) took(boot_clock_ns() - sent);
    const Plan::Result result = plan.result(response, proposals, engine_.memo_);
    see(result);
    if (plan.writes()) count(plan, result, proposals);
    switch (result.kind) {
      case Kind::committed:
      case Kind::refused: break;
      case Kind::outrun: ++outrun_; return std::nullopt;
      case Kind::headless: engine_.make_head(); return std::nullopt;
      case Kind::surprised:
      case Kind::unanswered: return std::nullopt;
    }
    const bool wrote = plan.writes() && result.kind == Kind::committed;
    if (wrote) plan.learn(result.head->revision, result.revision, engine_.memo_);
    Outcome outcome;
    outcome.committed = result.kind == Kind::committed;
    outcome.revision = result.head->revision;
    if (!read_on(plan, result, wrote, outcome)) return std::nullopt;
    return outcome;
  }

  // Of several the mean, with more weight on late ones. A race loses one, and no more.
  void took(std::int64_t time_ns) {
    const std::uint64_t mean = engine_.round_trip_us_.load();
    engine_.round_trip_us_.store((mean * 7 + static_cast<std::uint64_t>(time_ns) / 1000) / 8);
  }

  void see(const Plan::Result& result) {
    if (!result.head) return;
    engine_.clock_.see(result.head->revision);
    engine_.clock_.see(result.head->time);
    engine_.memo_.same(result.head->revision, result.head_mod_revision);
  }

  void count(const Plan& plan, const Plan::Result& result,
             const std::vector<std::uint64_t>& proposals) {
    ++engine_.round_trips_;
    if (result.kind == Kind::outrun) {
      ++engine_.outrun_;
      engine_.race_.store(race_memory);
    }
    if (result.kind == Kind::surprised) ++engine_.surprised_;
    if (result.kind != Kind::committed || !plan.writes()) return;
    ++engine_.commits_;
    if (result.head->revision.value != proposals.front()) {
      ++engine_.later_;
      engine_.race_.store(race_memory);
    } else if (engine_.race_.load() > 0) {
      engine_.race_.fetch_sub(1);
    }
  }

  // Which ranges are quiet since a revision of ours that etcd's number is not known for.
  std::optional<Outcome> ask(Plan& plan) {
    pb::TxnResponse response;
    engine_.client_.txn(plan.question(), response, false);
    const pb::RangeResponse& head = response.responses(0).response_range();
    if (head.kvs().empty()) {
      engine_.make_head();
      return std::nullopt;
    }
    Plan::Result result;
    result.kind = Kind::refused;
    result.head = parse_head(head.kvs(0).value());
    result.head_mod_revision = head.kvs(0).mod_revision();
    result.revision = response.header().revision();
    see(result);
    int at = 1;
    for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
      if (plan.reads_anything(i))
        result.reads.push_back(&response.responses(at++).response_range());
    }
    bool quiet = true;
    for (const std::size_t i : plan.open_questions()) {
      const pb::RangeResponse& newest = response.responses(at++).response_range();
      quiet = quiet && (newest.kvs().empty() ||
                        parse_value(newest.kvs(0).value()).changed <= txn_.guards[i].revision);
    }
    if (quiet) {
      plan.answer(result.revision, result.head->revision);
      return std::nullopt;
    }
    Outcome outcome;
    outcome.revision = result.head->revision;
    if (!read_on(plan, result, false, outcome)) return std::nullopt;
    return outcome;
  }

  // Fills in the reads; those whose limit was used up by entries that do not count are read on, at
  // the revision of the transaction. False: it was compacted meanwhile, and nothing was written.
  bool read_on(const Plan& plan, const Plan::Result& result, bool wrote, Outcome& outcome) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
      std::vector<Entry>& entries = outcome.reads.emplace_back();
      if (!plan.reads_anything(i)) continue;
      Range range = txn_.reads[i];
      if (wrote && range.before == this_apply) range.before = outcome.revision;
      std::uint32_t skip = range.skip;
      const pb::RangeResponse* found = result.reads[at++];
      pb::RangeResponse more;
      while (take(*found, range, skip, entries) && found->more()) {
        pb::RangeRequest request = plan.range_request(i);
        const std::string& last = found->kvs(found->kvs_size() - 1).key();
        if (range.reverse) {
          request.set_range_end(last);
        } else {
          request.set_key(last + '\0');
        }
        request.set_limit(page);
        request.set_revision(result.revision);
        pb::RangeResponse next;
        try {
          engine_.client_.range(request, next);
        } catch (const StoreError& error) {
          if (!wrote) return false;
          throw StoreError(error.what(), true);
        }
        more.Swap(&next);
        found = &more;
      }
    }
    return true;
  }

  // False: as many as were asked for.
  bool take(const pb::RangeResponse& found, const Range& range, std::uint32_t& skip,
            std::vector<Entry>& entries) {
    for (const pb::KeyValue& kv : found.kvs()) {
      if (range.limit != 0 && entries.size() == range.limit) return false;
      const std::string_view key = *engine_.layout_.entry_at(kv.key());
      if (range.before != Revision{} && stamp_of(key) >= range.before) continue;
      if (skip > 0) {
        --skip;
        continue;
      }
      const Value value = parse_value(kv.value());
      entries.push_back({.key = std::string{key},
                         .value = std::string{value.bytes},
                         .created = value.created,
                         .changed = value.changed});
      engine_.memo_.made(key, {.mod_revision = kv.mod_revision(), .created = value.created});
    }
    return range.limit == 0 || entries.size() < range.limit;
  }

  Engine& engine_;
  const Txn& txn_;
  const Mark* mark_;
  unsigned outrun_ = 0;
};

Engine::Engine(Address address) : client_(std::move(address)), layout_(client_.address().prefix) {
  std::ignore = newest();
}

Engine::~Engine() = default;

Outcome Engine::apply(const Txn& txn, const Mark* mark) { return Attempt{*this, txn, mark}.run(); }

Revision Engine::newest() { return apply({}).revision; }

void Engine::make_head() {
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

Engine::Life Engine::look_at_mark(std::string_view id) {
  pb::RangeRequest request;
  request.set_key(layout_.mark(id));
  request.set_keys_only(true);
  pb::RangeResponse response;
  client_.range(request, response);
  return {.alive = !response.kvs().empty(), .at = response.header().revision()};
}

Engine::Counts Engine::counts() const noexcept {
  return {.commits = commits_.load(),
          .round_trips = round_trips_.load(),
          .outrun = outrun_.load(),
          .surprised = surprised_.load(),
          .later_proposals = later_.load()};
}

}  // namespace tenure::etcd

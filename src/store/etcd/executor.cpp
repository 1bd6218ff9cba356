#include "store/etcd/executor.hpp"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "store/etcd/numbers.hpp"
#include "store/etcd/plan.hpp"

namespace tenure::etcd {
namespace {

// Who was outrun so often also proposes one that is far ahead: by the time that a request takes,
// more each time, up to so many times. A proposal further ahead than needed puts all others behind,
// so it is the last resort.
constexpr unsigned patience = 4;
constexpr unsigned max_further = 64;
constexpr int max_attempts = 10'000;
constexpr unsigned max_unanswered = 3;
constexpr std::int64_t page = 256;
// So many commits after the last that others outran, requests carry several proposals.
constexpr int race_memory = 64;
constexpr unsigned min_reach = 2;
// In which no cluster makes as many revisions as max_age.
constexpr std::int64_t longest_unseen_ns = 500'000'000;
// Of a batch: etcd takes 128 comparisons and 128 writes, of which the head needs one, and 1.5 MB.
constexpr std::size_t max_batch_operations = 120;
constexpr std::size_t max_batch_bytes = std::size_t{512} * 1024;

}  // namespace

// One apply: its plan, and as many requests as it takes.
class Executor::Attempt {
 public:
  Attempt(Executor& executor, const Txn& txn, const LeaseKey* lease_key,
          const Batch* batch = nullptr)
      : executor_(executor), txn_(txn), lease_key_(lease_key), batch_(batch) {}

  Outcome run() {
    for (int i = 0; i < max_attempts; ++i) {
      if (auto outcome = once()) return *std::move(outcome);
    }
    throw StoreError("etcd at " + executor_.client_.address().text() + ": gave up after " +
                     std::to_string(max_attempts) +
                     " conflicting writes by other clients: retry later");
  }

 private:
  using Kind = Plan::Result::Kind;

  std::optional<Outcome> once() {
    ++attempts_;
    executor_.close_open();
    Plan plan{executor_.layout_, executor_.memo_, txn_, lease_key_, batch_};
    if (!plan.open_questions().empty()) {
      if (auto refused = ask(plan)) return refused;
    }
    const Plan::Proposal proposal = propose(plan);
    // Some thirty small objects that go together.
    google::protobuf::Arena arena;
    auto& request = *google::protobuf::Arena::CreateMessage<pb::TxnRequest>(&arena);
    auto& response = *google::protobuf::Arena::CreateMessage<pb::TxnResponse>(&arena);
    plan.request(proposal, request);
    const std::int64_t since = executor_.by_etcd_.load();
    const std::int64_t sent = boot_ns();
    try {
      executor_.client_.txn(request, response, plan.writes());
    } catch (const StoreError& error) {
      if (!error.unknown()) throw;
      const std::optional<std::int64_t> made_at = resolve_unknown_commit(proposal, since, error);
      return made_at ? found(plan, proposal, *made_at) : std::nullopt;
    }
    if (plan.writes()) took(boot_ns() - sent);
    const Plan::Result result = plan.result(response, proposal, executor_.memo_);
    see(result, sent);
    if (plan.writes()) count(result, proposal);
    switch (result.kind) {
      case Kind::committed:
      case Kind::refused: break;
      case Kind::outrun: ++outrun_; return std::nullopt;
      case Kind::aged: number_it_ = true; return std::nullopt;
      case Kind::headless: executor_.make_head(); return std::nullopt;
      case Kind::surprised:
      case Kind::disturbed:
      case Kind::unanswered: return std::nullopt;
    }
    return finish(plan, proposal, result);
  }

  std::optional<Outcome> finish(const Plan& plan, const Plan::Proposal& proposal,
                                const Plan::Result& result) {
    const bool wrote = plan.writes() && result.kind == Kind::committed;
    if (wrote) {
      if (proposal.heads.empty() && !is_exact(result.head_put_at, result.by_etcd)) refuse_number();
      plan.learn(result.at, result.by_etcd, executor_.memo_, executor_.own_);
    }
    Outcome outcome;
    outcome.committed = result.kind == Kind::committed;
    outcome.revision = result.at;
    if (!read_on(plan, result, wrote, outcome)) return std::nullopt;
    if (wrote && !plan.only_removes()) own(plan, proposal, result);
    return outcome;
  }

  // The head is ours; and what was read is empty but for what was appended, where nothing else was
  // found.
  void own(const Plan& plan, const Plan::Proposal& proposal, const Plan::Result& result) {
    SoleWriter::Commit commit{
        .head = {{.revision = result.at, .time = proposal.time}, result.by_etcd},
        .on = result.on,
        .changes = plan.changes(result.at)};
    std::size_t at = 0;
    for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
      if (!plan.reads_anything(i)) continue;
      const pb::RangeResponse* const found = result.reads[at++];
      if (found == nullptr || found->more() || !plan.hint(i).empty()) continue;
      const bool empty = std::ranges::all_of(found->kvs(), [&](const pb::KeyValue& kv) {
        return kv.mod_revision() == result.by_etcd;
      });
      if (empty) commit.empty.push_back(txn_.reads[i]);
    }
    executor_.own_.moved(commit);
  }

  // No answer came. Once the head has passed all that was proposed, the step was made before that
  // or never will be; and what head and tail were in between says which: at which of etcd's
  // revisions; nothing: never.
  std::optional<std::int64_t> resolve_unknown_commit(const Plan::Proposal& proposal,
                                                     std::int64_t since, const StoreError& why) {
    std::optional<std::int64_t> made_at;
    bool known = false;
    try {
      if (++unanswered_ > max_unanswered) throw StoreError(why.what());
      const Client::Period period{.from = executor_.layout_.head(),
                                  .to = executor_.layout_.tail_end(),
                                  .after = since,
                                  .last = executor_.pass(proposal.last)};
      const std::string tail = executor_.layout_.tail();
      const std::string tail_now = tail_value(proposal.time);
      known = executor_.client_.history(period, [&](const pb::KeyValue& kv) {
        const bool ours = kv.key() == tail ? kv.value() == tail_now
                                           : parse_head(kv.value()).time == proposal.time;
        if (ours) made_at = kv.mod_revision();
        return !ours;
      });
    } catch (const StoreError&) {
      executor_.leave_open(proposal.last);
    }
    if (!known) throw StoreError(why.what(), true);
    return made_at;
  }

  // The transaction was made, as resolve_unknown_commit() found: reads the head, the tail and the
  // ranges as they were then.
  std::optional<Outcome> found(const Plan& plan, const Plan::Proposal& proposal,
                               std::int64_t made_at) {
    Plan::Result result;
    result.kind = Kind::committed;
    result.by_etcd = made_at;
    std::vector<pb::RangeResponse> responses(txn_.reads.size());
    try {
      const Position position = executor_.position_at(made_at);
      result.head = position.head;
      result.head_put_at = position.put_at;
      result.at = position.newest;
      result.at_by_etcd = position.newest_at;
      for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
        if (!plan.reads_anything(i)) continue;
        pb::RangeRequest request = plan.range_request(i);
        request.set_revision(made_at);
        executor_.client_.range(request, responses[i]);
        result.reads.push_back(&responses[i]);
      }
    } catch (const StoreError& error) {
      throw StoreError(error.what(), true);
    }
    executor_.memo_.same(result.at, result.at_by_etcd);
    return finish(plan, proposal, result);
  }

  // In a race, the next heads behind the one that was seen: who commits then moves the head by as
  // little as can be, and all who know of it within as many commits get through. Else one, by the
  // time: nobody needs to have seen what others did before.
  Plan::Proposal propose(const Plan& plan) {
    Plan::Proposal proposal;
    if (!plan.writes()) return proposal;
    // Who has not looked lately can't tell how old the head is.
    const bool knows = boot_ns() - executor_.seen_ns_.load() < longest_unseen_ns;
    proposal.time = executor_.clock_.unique_time();
    if (knows && !number_it_ && rely(plan, proposal)) return proposal;
    if (plan.only_removes() && knows && !number_it_) {
      proposal.last = executor_.clock_.far();
      proposal.oldest = std::max<std::int64_t>(executor_.by_etcd_.load() - max_age, 0);
      return proposal;
    }
    add_heads(plan, proposal);
    proposal.last = proposal.heads.back();
    return proposal;
  }

  // On the head being our own still.
  bool rely(const Plan& plan, Plan::Proposal& proposal) {
    if (!plan.only_appends() || batch_ != nullptr) return false;
    if (attempts_ > 1 || executor_.race_.load() > 0) return false;
    proposal.own = executor_.own_.use(txn_.reads);
    if (!proposal.own) return false;
    const bool young = executor_.by_etcd_.load() - proposal.own->head.put_at < max_age;
    if (plan.only_removes()) {
      proposal.last = proposal.own->head.revision.value;
      if (!young) proposal.own.reset();
      return young;
    }
    proposal.heads.push_back(executor_.clock_.propose());
    proposal.last = proposal.heads.back();
    return true;
  }

  void add_heads(const Plan& plan, Plan::Proposal& proposal) {
    const std::size_t most = plan.max_heads();
    if (executor_.race_.load() <= 0 || most == 1) {
      // A batch takes as many numbers as it has transactions, up to this one.
      const std::uint64_t lead = batch_ == nullptr ? 0 : (batch_->count - 1) * apart;
      proposal.heads.push_back((outrun_ < patience ? executor_.clock_.propose() : far_ahead()) +
                               lead);
      return;
    }
    const std::size_t count = std::min<std::size_t>(executor_.reach_.load(), most);
    const std::uint64_t first = executor_.clock_.next();
    for (std::size_t i = 0; i < count; ++i) proposal.heads.push_back(first + (i * apart));
    if (outrun_ >= patience) proposal.heads.back() = std::max(far_ahead(), proposal.heads.back());
  }

  [[nodiscard]] std::uint64_t far_ahead() {
    const std::uint64_t lead = (executor_.round_trip_us_.load() * heads_a_second / 1'000'000) + 1;
    return executor_.clock_.propose() + (lead * std::min(outrun_, max_further) * apart);
  }

  // More of etcd's revisions than the numbers between two heads are for, while one request was on
  // its way.
  [[noreturn]] void refuse_number() const {
    throw StoreError(
        "etcd at " + executor_.client_.address().text() +
            ": the transaction was committed, but other clients wrote so much meanwhile "
            "that its revision is unknown: read before retrying",
        true);
  }

  // Of several the mean, with more weight on late ones. A race loses one, and no more.
  void took(std::int64_t time_ns) {
    const std::uint64_t mean = executor_.round_trip_us_.load();
    executor_.round_trip_us_.store((mean * 7 + static_cast<std::uint64_t>(time_ns) / 1000) / 8);
  }

  void see(const Plan::Result& result, std::int64_t asked_ns) {
    executor_.see(result.by_etcd, asked_ns);
    if (!result.head) return;
    executor_.clock_.see(result.head->revision);
    executor_.clock_.see(result.head->time);
    executor_.memo_.same(result.head->revision, result.head_put_at);
    if (result.at != result.head->revision) executor_.memo_.same(result.at, result.at_by_etcd);
  }

  void count(const Plan::Result& result, const Plan::Proposal& proposal) {
    ++executor_.round_trips_;
    if (result.kind == Kind::disturbed) {
      ++executor_.disturbed_;
      executor_.own_.was_not_ours();
    } else if (proposal.own) {
      executor_.own_.was_ours();
    }
    executor_.proposed_ += proposal.heads.size();
    if (result.kind == Kind::surprised) ++executor_.surprised_;
    if (result.kind == Kind::outrun) {
      ++executor_.outrun_;
      if (executor_.race_.exchange(race_memory) > 0) reach(executor_.reach_.load() * 2);
    }
    if (result.kind != Kind::committed) return;
    ++executor_.commits_;
    if (proposal.heads.empty()) return;
    const std::uint64_t ahead = (result.at.value - proposal.heads.front()) / apart;
    if (ahead > 0) {
      ++executor_.later_;
      executor_.race_.store(race_memory);
    } else if (executor_.race_.load() > 0) {
      executor_.race_.fetch_sub(1);
    }
    reach(static_cast<unsigned>(std::min<std::uint64_t>(ahead, Plan::max_proposals)));
  }

  // Up at once, down slowly.
  void reach(unsigned ahead) {
    const unsigned old = executor_.reach_.load();
    const unsigned wanted = ahead + (ahead / 4) + min_reach;
    const unsigned next = wanted >= old ? wanted : old - ((old - wanted + 15) / 16);
    executor_.reach_.store(std::min<unsigned>(next, Plan::max_proposals));
  }

  // Which ranges are quiet since a revision of ours that etcd's number is not known for.
  std::optional<Outcome> ask(Plan& plan) {
    pb::TxnResponse response;
    const std::int64_t asked = boot_ns();
    executor_.client_.txn(plan.question(), response, false);
    const auto position = parse_position(executor_.layout_, response.responses(0).response_range());
    if (!position) {
      executor_.make_head();
      return std::nullopt;
    }
    Plan::Result result;
    result.kind = Kind::refused;
    result.head = position->head;
    result.head_put_at = position->put_at;
    result.by_etcd = response.header().revision();
    result.at = position->newest;
    result.at_by_etcd = position->newest_at;
    see(result, asked);
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
      plan.answer(result.by_etcd, result.at, result.head->revision);
      return std::nullopt;
    }
    Outcome outcome;
    outcome.revision = result.at;
    if (!read_on(plan, result, false, outcome)) return std::nullopt;
    return outcome;
  }

  // A read, with the revision of the apply in the place of this_apply. None: it wrote nothing, so
  // all stamps are before it.
  [[nodiscard]] Range read_before(std::size_t read, Revision revision) const {
    Range range = txn_.reads[read];
    if (range.before == this_apply) range.before = revision;
    return range;
  }

  // Fills in the reads; those whose limit was used up by entries that do not count, or that began
  // at a hint and found too little, are read on, at the revision of the transaction. False: it was
  // compacted meanwhile, and nothing was written.
  bool read_on(const Plan& plan, const Plan::Result& result, bool wrote, Outcome& outcome) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
      std::vector<Entry>& entries = outcome.reads.emplace_back();
      if (!plan.reads_anything(i)) continue;
      const Range range = read_before(i, wrote ? outcome.revision : Revision{});
      std::uint32_t skip = range.skip;
      const pb::RangeResponse* found = result.reads[at++];
      if (found == nullptr) continue;
      pb::RangeResponse more;
      bool narrow = !plan.hint(i).empty();
      while (take(*found, range, skip, entries) && (found->more() || narrow)) {
        pb::RangeRequest request = rest_of(plan, i, *found, narrow);
        narrow = narrow && found->more();
        request.set_revision(result.by_etcd);
        pb::RangeResponse next;
        try {
          executor_.client_.range(request, next);
        } catch (const StoreError& error) {
          if (!wrote) return false;
          throw StoreError(error.what(), true);
        }
        more.Swap(&next);
        found = &more;
      }
      if (narrow || plan.hint(i).empty()) continue;
      executor_.memo_.gone(entries.empty() ? range.from : entries.front().key + '\0', range);
    }
    return true;
  }

  // What of a read is behind that; of one that began at a hint and is done, what is before the
  // hint.
  [[nodiscard]] pb::RangeRequest rest_of(const Plan& plan, std::size_t read,
                                         const pb::RangeResponse& found, bool narrow) const {
    pb::RangeRequest request = plan.range_request(read);
    request.set_limit(page);
    const std::string hint = executor_.layout_.key(plan.hint(read));
    if (!found.more()) {
      request.set_range_end(hint);
      return request;
    }
    const std::string& last = found.kvs(found.kvs_size() - 1).key();
    if (!txn_.reads[read].reverse) {
      request.set_key(last + '\0');
      return request;
    }
    request.set_range_end(last);
    if (narrow) request.set_key(hint);
    return request;
  }

  // False: as many as were asked for.
  bool take(const pb::RangeResponse& found, const Range& range, std::uint32_t& skip,
            std::vector<Entry>& entries) {
    for (const pb::KeyValue& kv : found.kvs()) {
      if (range.limit != 0 && entries.size() == range.limit) return false;
      const std::string_view key = executor_.layout_.entry_at(kv.key()).value_or("");
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
      executor_.memo_.made(key, {.mod_revision = kv.mod_revision(), .created = value.created});
    }
    return range.limit == 0 || entries.size() < range.limit;
  }

  Executor& executor_;
  const Txn& txn_;
  const LeaseKey* lease_key_;
  const Batch* batch_;
  unsigned attempts_ = 0;
  unsigned outrun_ = 0;
  bool number_it_ = false;
  unsigned unanswered_ = 0;
};

Executor::Executor(Address address)
    : client_(std::move(address)), layout_(client_.address().prefix) {
  std::ignore = apply({});
}

Executor::~Executor() = default;

void Executor::apply_all(std::span<stores::Posting> postings) {
  std::size_t compares = 0;
  std::size_t writes = 0;
  std::size_t bytes = 0;
  const auto fits = [&](const Txn& txn) {
    bool puts = false;
    for (const Write& write : txn.writes) {
      puts = puts || write.kind != Write::Kind::remove;
      compares += write.kind == Write::Kind::put ? 1 : 0;  // What it assumes.
      bytes += write.key.size() + write.value.size();
    }
    writes += txn.writes.size();
    bool questions = false;
    for (const Guard& guard : txn.guards) {
      compares += guard.kind == Guard::Kind::unchanged ? 2 : 1;
      questions = questions || (guard.kind == Guard::Kind::quiet && guard.revision != Revision{});
    }
    return puts && !questions && txn.reads.empty() && compares <= max_batch_operations &&
           writes <= max_batch_operations && bytes <= max_batch_bytes;
  };
  while (!postings.empty()) {
    compares = writes = bytes = 0;
    const std::size_t count = stores::independent(postings, fits);
    if (count == 1 || !apply_together(postings.first(count))) {
      for (stores::Posting& one : postings.first(count)) {
        try {
          one.outcome = apply(one.txn);
        } catch (...) {
          one.error = std::current_exception();
        }
      }
    }
    postings = postings.subspan(count);
  }
}

// False: nothing was made, and each is to be judged by itself.
bool Executor::apply_together(std::span<stores::Posting> postings) {
  Txn all;
  Batch batch{.txn_of_write = {}, .count = postings.size()};
  for (std::size_t i = 0; i < postings.size(); ++i) {
    const Txn& txn = postings[i].txn;
    all.guards.insert(all.guards.end(), txn.guards.begin(), txn.guards.end());
    all.writes.insert(all.writes.end(), txn.writes.begin(), txn.writes.end());
    batch.txn_of_write.resize(all.writes.size(), i);
  }
  try {
    const Outcome outcome = Attempt{*this, all, nullptr, &batch}.run();
    if (!outcome.committed) return false;
    for (std::size_t i = 0; i < postings.size(); ++i) {
      const std::uint64_t behind = (postings.size() - 1 - i) * apart;
      postings[i].outcome = {
          .committed = true, .revision = {outcome.revision.value - behind}, .reads = {}};
    }
  } catch (const StoreError&) {  // No server answers, or it is unknown what became of them.
    for (stores::Posting& one : postings) one.error = std::current_exception();
  } catch (const Error&) {
    return false;
  }
  return true;
}

Outcome Executor::apply(const Txn& txn, const LeaseKey* lease_key) {
  return Attempt{*this, txn, lease_key}.run();
}

}  // namespace tenure::etcd

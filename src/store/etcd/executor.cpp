#include "store/etcd/executor.hpp"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "store/etcd/form.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/plan.hpp"
#include "store/etcd/range_reader.hpp"

namespace tenure::etcd {
namespace {

// Limits of a batch: etcd takes 128 comparisons and 128 writes, of which the heads need a few, and
// 1.5 MB.
constexpr std::size_t max_batch_operations = 120;
constexpr std::size_t max_batch_bytes = std::size_t{512} * 1024;

}  // namespace

// One apply, and as many requests as it takes.
class Executor::Attempt {
 public:
  Attempt(Executor& executor, const Txn& txn, const LeaseKey* lease_key,
          const Batch* batch = nullptr)
      : executor_(executor),
        txn_(txn),
        lease_key_(lease_key),
        batch_(batch),
        proposer_(
            {.clock = executor.clock_, .orders = executor.orders_, .counts = executor.counts_}) {}

  Outcome run() {
    while (proposer_.next_attempt()) {
      if (auto outcome = once()) return *std::move(outcome);
    }
    throw StoreError("etcd at " + executor_.client_.address().text() + ": gave up after " +
                     std::to_string(Proposer::max_attempts) +
                     " conflicting writes by other clients: retry later");
  }

 private:
  // Nothing: try again.
  std::optional<Outcome> once() {
    executor_.pass_unresolved();
    Plan plan{executor_.layout_, executor_.caches_, txn_, lease_key_, batch_};
    if (!plan.open_questions().empty()) {
      pb::TxnResponse response;
      const Answer answer = ask(plan, response);
      if (answer.verdict == Verdict::no_head) executor_.make_heads(plan.shown());
      if (answer.verdict == Verdict::refused) return finish(plan, {}, answer);
      if (answer.verdict != Verdict::committed) return std::nullopt;
      plan.answer(answer.by_etcd, *answer.heads);
    }
    return propose(plan);
  }

  std::optional<Outcome> propose(const Plan& plan) {
    const Proposal proposal = proposer_.propose(plan.needs(), txn_);
    const std::unique_ptr<const Form> form = make_form(plan, proposal);
    // A request has some thirty small objects, which are freed together.
    google::protobuf::Arena arena;
    auto& request = *google::protobuf::Arena::CreateMessage<pb::TxnRequest>(&arena);
    auto& response = *google::protobuf::Arena::CreateMessage<pb::TxnResponse>(&arena);
    form->build(request);
    const std::int64_t since = executor_.by_etcd_.load();
    const std::int64_t sent = boot_ns();
    try {
      executor_.client_.txn(request, response, plan.writes());
    } catch (const StoreError& error) {
      if (!error.unknown()) throw;
      const std::optional<std::int64_t> made_at = resolve_unknown_commit(proposal, since, error);
      return made_at ? finish_resolved(plan, proposal, *made_at) : std::nullopt;
    }
    if (plan.writes()) executor_.orders_.took(boot_ns() - sent);
    const Answer answer = form->parse(response);
    see(answer);
    switch (proposer_.judge(answer.verdict, proposal, answer.newest())) {
      case Proposer::Next::finish: return finish(plan, proposal, answer);
      case Proposer::Next::make_head: executor_.make_heads(plan.shown()); break;
      case Proposer::Next::retry: break;
    }
    return std::nullopt;
  }

  // Asks whether ranges are quiet since revisions of ours for which etcd's is not known.
  Answer ask(const Plan& plan, pb::TxnResponse& response) {
    const QuestionForm form{plan};
    executor_.client_.txn(form.build(), response, false);
    Answer answer = form.parse(response);
    see(answer);
    return answer;
  }

  // Nothing: the snapshot was compacted before all of it was read, and nothing was written.
  std::optional<Outcome> finish(const Plan& plan, const Proposal& proposal, const Answer& answer) {
    Outcome outcome;
    outcome.committed = answer.verdict == Verdict::committed;
    outcome.revision = answer.newest();
    const bool wrote = plan.writes() && outcome.committed;
    if (wrote) plan.remember(outcome.revision, answer.by_etcd, executor_.caches_.keys);
    RangeReader reader{plan, executor_.caches_.keys,
                       [this, wrote](const pb::RangeRequest& request, pb::RangeResponse& response) {
                         return fetch(request, response, wrote);
                       }};
    auto reads = reader.read(answer, wrote ? outcome.revision : Revision{});
    if (!reads) return std::nullopt;
    outcome.reads = *std::move(reads);
    if (wrote && plan.scope().single()) {
      executor_.orders_.moved(proposal.order, own_commit(plan, proposal, answer));
    } else if (wrote) {
      executor_.orders_.forget(plan.scope());
    }
    return outcome;
  }

  bool fetch(const pb::RangeRequest& request, pb::RangeResponse& response, bool wrote) {
    try {
      executor_.client_.range(request, response);
      return true;
    } catch (const StoreError& error) {
      if (!wrote) return false;
      throw StoreError(error.what(), true);
    }
  }

  // No answer came. Once the first of its heads has passed everything that was proposed, the
  // transaction has committed or never will, and the history of that head says which. Returns the
  // revision of etcd's at which it committed; nothing: it never will. Throws if that can't be found
  // out.
  std::optional<std::int64_t> resolve_unknown_commit(const Proposal& proposal, std::int64_t since,
                                                     const StoreError& why) {
    std::optional<std::int64_t> made_at;
    bool known = false;
    const Mark mark{.order = proposal.order, .last = proposal.heads.back()};
    try {
      if (!proposer_.may_resolve()) throw StoreError(why.what());
      const std::string head = executor_.layout_.head(proposal.order);
      const Client::Period period{
          .from = head, .to = head + '\0', .after = since, .last = executor_.pass(mark)};
      known = executor_.client_.history(period, [&](const pb::KeyValue& kv) {
        const bool ours = parse_head(kv.value()).time == proposal.time;
        if (ours) made_at = kv.mod_revision();
        return !ours;
      });
    } catch (const StoreError&) {
      executor_.leave_unresolved(mark);
    }
    if (!known) throw StoreError(why.what(), true);
    return made_at;
  }

  // The transaction committed at `made_at`: reads its number and the ranges as they were then.
  std::optional<Outcome> finish_resolved(const Plan& plan, const Proposal& proposal,
                                         std::int64_t made_at) {
    Answer answer;
    answer.verdict = Verdict::committed;
    answer.by_etcd = made_at;
    std::vector<pb::RangeResponse> responses(txn_.reads.size());
    try {
      const Head head = executor_.head_at(proposal.order, made_at);
      answer.heads.emplace();
      for (const OrderId order : plan.scope().moved()) {
        answer.heads->add({.order = order, .head = head, .put_at = made_at});
      }
      for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
        if (!plan.reads_anything(i)) continue;
        pb::RangeRequest request = plan.range_request(i);
        request.set_revision(made_at);
        executor_.client_.range(request, responses[i]);
        answer.reads.push_back(&responses[i]);
      }
    } catch (const StoreError& error) {
      throw StoreError(error.what(), true);
    }
    see(answer);
    return finish(plan, proposal, answer);
  }

  // Remembers what an answer says of the store.
  void see(const Answer& answer) {
    executor_.see(answer.by_etcd);
    for (const Answer::SeenKey& one : answer.keys) {
      if (one.state.mod_revision == 0) {
        executor_.caches_.keys.erase(one.key);
      } else {
        executor_.caches_.keys.put(one.key, one.state);
      }
    }
    if (!answer.heads) return;
    for (const Heads::One& one : answer.heads->all) {
      executor_.orders_.see(one.order, one.head.revision);
      executor_.clock_.see(one.head.time);
      // Zero is before everything, not the first head of nothing.
      if (one.head.revision == Revision{}) continue;
      executor_.caches_.revisions.add(one.head.revision, one.put_at);
    }
  }

  Executor& executor_;
  const Txn& txn_;
  const LeaseKey* lease_key_;
  const Batch* batch_;
  Proposer proposer_;
};

Executor::Executor(Address address)
    : client_(std::move(address)), layout_(client_.address().prefix) {
  std::ignore = apply({});
}

Executor::~Executor() = default;

Outcome Executor::apply(const Txn& txn, const LeaseKey* lease_key) {
  return Attempt{*this, txn, lease_key}.run();
}

void Executor::apply_all(std::span<stores::Posting> postings) {
  std::size_t compares = 0;
  std::size_t writes = 0;
  std::size_t bytes = 0;
  const auto fits = [&](const Txn& txn) {
    bool puts = false;
    for (const Write& write : txn.writes) {
      puts = puts || write.kind != Write::Kind::remove;
      compares += write.kind == Write::Kind::put ? 1 : 0;  // What it assumes of the key.
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

// False: nothing was written, and each transaction is to be judged by itself.
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
      const Revision revision{outcome.revision.value - behind};
      if (const auto at = by_etcd(outcome.revision)) caches_.revisions.add(revision, *at);
      postings[i].outcome = {.committed = true, .revision = revision, .reads = {}};
    }
  } catch (const StoreError&) {  // No server answers, or it is unknown what became of them.
    for (stores::Posting& one : postings) one.error = std::current_exception();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace tenure::etcd

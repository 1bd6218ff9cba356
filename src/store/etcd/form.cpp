#include "store/etcd/form.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/numbers.hpp"
#include "store/etcd/requests.hpp"

namespace tenure::etcd {

Answer Form::empty_answer(const pb::TxnResponse& response) {
  Answer answer;
  answer.by_etcd = response.header().revision();
  return answer;
}

// A transaction that only reads does not need the head of a root.
void Form::parse_heads(const Results& results, int first, Answer& answer) const {
  Heads heads = etcd::parse_heads(plan_.layout(), plan_.shown(), results, first);
  Scope needed = plan_.scope();
  if (!plan_.writes()) needed.roots.clear();
  needed.top = needed.top || plan_.scope().below_top();
  if (has_all(heads, needed)) answer.heads = std::move(heads);
}

void Form::parse_reads(const Results& results, int first, Answer& answer,
                       const SoleWriter::Use* own) const {
  for (std::size_t i = 0; i < plan_.txn().reads.size(); ++i) {
    if (!plan_.reads_anything(i)) continue;
    const bool known = own != nullptr && own->empty[i];
    answer.reads.push_back(known ? nullptr : &results.Get(first++).response_range());
  }
}

void Form::parse_keys(const Results& results, int first, Answer& answer) const {
  for (const Plan::AssumedKey& assumed : plan_.assumed_keys()) {
    const pb::RangeResponse& found = results.Get(first++).response_range();
    KeyState state;
    if (!found.kvs().empty()) {
      state = {.mod_revision = found.kvs(0).mod_revision(),
               .created = parse_value(found.kvs(0).value()).created};
    }
    answer.keys.push_back({.key = assumed.key, .state = state});
  }
}

bool Form::keys_are_as_assumed(const Answer& answer) const {
  return std::ranges::equal(answer.keys, plan_.assumed_keys(),
                            [](const Answer::SeenKey& seen, const Plan::AssumedKey& assumed) {
                              return seen.state.mod_revision == assumed.state.mod_revision;
                            });
}

// If nothing was put since the question, another guard than that of the question failed.
void Form::parse_refusal(const Results& results, int first, Answer& answer) const {
  parse_reads(results, first, answer);
  answer.verdict =
      plan_.refusal_is_certain(answer.newest()) ? Verdict::refused : Verdict::guard_unclear;
}

void Form::commit(std::uint64_t head, Answer& answer) const {
  answer.verdict = Verdict::committed;
  answer.heads.emplace();
  for (const OrderId order : plan_.scope().moved()) {
    answer.heads->add({.order = order,
                       .head = {.revision = Revision{head}, .time = {}},
                       .put_at = answer.by_etcd});
  }
}

namespace {

class ReadForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    for (auto* const ops : {request.mutable_success(), request.mutable_failure()}) {
      plan().add_heads(*ops);
      plan().add_reads(*ops);
    }
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    parse_heads(response.responses(), 0, answer);
    if (!answer.heads) return answer;
    if (response.succeeded()) {
      answer.verdict = Verdict::committed;
      parse_reads(response.responses(), head_reads(), answer);
    } else {
      parse_refusal(response.responses(), head_reads(), answer);
    }
    return answer;
  }
};

class OneHeadForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    compare_heads(request, plan().layout(), plan().scope(), smallest());
    plan().add_assumptions(request);
    plan().add_writes(*request.mutable_success(), proposal().heads[0], proposal().time);
    plan().add_reads(*request.mutable_success());
    plan().add_heads(*request.mutable_failure());
    plan().add_assumed_keys(*request.mutable_failure());
    plan().add_reads(*request.mutable_failure());
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    const Results& results = response.responses();
    if (response.succeeded()) {
      commit(proposal().heads[0], answer);
      const pb::PutResponse& head = results.Get(plan().operations() - 1).response_put();
      if (head.has_prev_kv()) answer.replaced = parse_head(head.prev_kv().value()).revision;
      parse_reads(results, plan().operations(), answer);
      return answer;
    }
    parse_heads(results, 0, answer);
    if (!answer.heads) return answer;
    parse_keys(results, head_reads(), answer);
    if (answer.heads->largest_in(plan().scope()) >= smallest()) {
      answer.verdict = Verdict::outrun;
    } else if (!keys_are_as_assumed(answer)) {
      answer.verdict = Verdict::key_changed;
    } else {
      parse_refusal(results, head_reads() + plan().assumed(), answer);
    }
    return answer;
  }

 private:
  // The revision of the first transaction of a batch.
  [[nodiscard]] Revision smallest() const noexcept {
    return plan().revision_of(0, Revision{proposal().heads[0]});
  }
};

class SeveralHeadsForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    if (plan().scope().below_top()) {
      compare_value(request, pb::Compare::LESS, plan().layout().head(top_order),
                    stamp(Revision{proposal().heads.front()}));
    }
    add_halves(*request.add_success()->mutable_request_txn(), 0, proposal().heads.size() - 1);
    plan().add_reads(*request.mutable_success());
    plan().add_heads(*request.mutable_failure());
    plan().add_reads(*request.mutable_failure());
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    if (!response.succeeded()) return parse_failure(response);
    Answer answer = empty_answer(response);
    const pb::TxnResponse* node = &response.responses(0).response_txn();
    std::size_t low = 0;
    std::size_t high = proposal().heads.size() - 1;
    for (;;) {
      const std::size_t middle = (low + high) / 2;
      if (node->succeeded() && low == middle) {
        if (plan().assumed() > 0) node = &node->responses(0).response_txn();
        if (!node->succeeded()) break;
        commit(proposal().heads[middle], answer);
        parse_reads(response.responses(), 1, answer);
        return answer;
      }
      if (!node->succeeded() && low == high) break;
      (node->succeeded() ? high : low) = node->succeeded() ? middle : middle + 1;
      node = &node->responses(0).response_txn();
    }
    parse_heads(node->responses(), 0, answer);
    parse_keys(node->responses(), head_reads(), answer);
    if (!answer.heads) return answer;
    const bool outrun = answer.heads->largest_in(plan().scope()).value >= proposal().heads.back();
    answer.verdict = outrun ? Verdict::outrun : Verdict::key_changed;
    return answer;
  }

 private:
  [[nodiscard]] Answer parse_failure(const pb::TxnResponse& response) const {
    Answer answer = empty_answer(response);
    parse_heads(response.responses(), 0, answer);
    if (!answer.heads) return answer;
    const Revision top = answer.heads->largest_in({.top = true});
    if (plan().scope().below_top() && top.value >= proposal().heads.front()) {
      answer.verdict = Verdict::outrun;
    } else {
      parse_refusal(response.responses(), head_reads(), answer);
    }
    return answer;
  }

  // A node finds the first of the heads from `low` to `high` that is larger than the current one.
  // NOLINTNEXTLINE(misc-no-recursion): at most six deep.
  void add_halves(pb::TxnRequest& node, std::size_t low, std::size_t high) const {
    const std::size_t middle = (low + high) / 2;
    const std::uint64_t head = proposal().heads[middle];
    compare_value(node, pb::Compare::LESS, plan().layout().head(proposal().order),
                  stamp(Revision{head}));
    if (low < middle) {
      add_halves(*node.add_success()->mutable_request_txn(), low, middle);
    } else if (plan().assumed() == 0) {
      plan().add_writes(*node.mutable_success(), head, proposal().time);
    } else {
      pb::TxnRequest& leaf = *node.add_success()->mutable_request_txn();
      plan().add_assumptions(leaf);
      plan().add_writes(*leaf.mutable_success(), head, proposal().time);
      add_what_is_there(*leaf.mutable_failure());
    }
    if (middle < high) {
      add_halves(*node.add_failure()->mutable_request_txn(), middle + 1, high);
    } else {
      add_what_is_there(*node.mutable_failure());
    }
  }

  void add_what_is_there(Ops& ops) const {
    plan().add_heads(ops);
    plan().add_assumed_keys(ops);
  }
};

// NOLINTBEGIN(bugprone-unchecked-optional-access): its proposals have `own`.
class SoleWriterForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    const PutHead& own = proposal().own->head;
    const Layout& layout = plan().layout();
    compare_value(request, pb::Compare::EQUAL, layout.head(proposal().order), head_value(own));
    if (plan().scope().below_top()) {
      add_compare(request, pb::Compare::MOD, pb::Compare::LESS, layout.head(top_order))
          ->set_mod_revision(own.put_at + 1);
    }
    plan().add_writes(*request.mutable_success(), proposal().heads[0], proposal().time);
    plan().add_reads(*request.mutable_success(), &*proposal().own);
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    answer.verdict = Verdict::head_not_ours;
    if (!response.succeeded()) return answer;
    commit(proposal().heads[0], answer);
    answer.replaced = proposal().own->head.revision;
    parse_reads(response.responses(), plan().operations(), answer, &*proposal().own);
    return answer;
  }
};
// NOLINTEND(bugprone-unchecked-optional-access)

}  // namespace

std::unique_ptr<const Form> make_form(const Plan& plan, const Proposal& proposal) {
  switch (proposal.shape) {
    case Shape::one_head: return std::make_unique<OneHeadForm>(plan, proposal);
    case Shape::several_heads: return std::make_unique<SeveralHeadsForm>(plan, proposal);
    case Shape::sole_writer: return std::make_unique<SoleWriterForm>(plan, proposal);
    case Shape::read: break;
  }
  return std::make_unique<ReadForm>(plan, proposal);
}

pb::TxnRequest QuestionForm::build() const {
  pb::TxnRequest request;
  plan_.add_heads(*request.mutable_success());
  plan_.add_reads(*request.mutable_success());
  plan_.add_questions(*request.mutable_success());
  return request;
}

Answer QuestionForm::parse(const pb::TxnResponse& response) const {
  Answer answer;
  answer.by_etcd = response.header().revision();
  answer.heads = parse_heads(plan_.layout(), plan_.shown(), response.responses(), 0);
  if (answer.heads->all.empty()) return answer;
  int next = head_reads(plan_.shown());
  for (std::size_t i = 0; i < plan_.txn().reads.size(); ++i) {
    if (!plan_.reads_anything(i)) continue;
    answer.reads.push_back(&response.responses(next++).response_range());
  }
  answer.verdict = Verdict::committed;
  for (const std::size_t i : plan_.open_questions()) {
    const pb::RangeResponse& newest = response.responses(next++).response_range();
    if (newest.kvs().empty()) continue;
    // Numbers of different roots can't be compared: then the range counts as changed.
    const Guard& guard = plan_.txn().guards[i];
    const Scope scope = scope_of(guard.range);
    const Revision changed = parse_value(newest.kvs(0).value()).changed;
    const bool comparable = scope.top || scope.single();
    if (!comparable || changed > guard.revision) answer.verdict = Verdict::refused;
  }
  return answer;
}

pb::TxnRequest MakeHeadsForm::build(const Layout& layout, const Scope& scope, std::uint64_t slot,
                                    Instant time) {
  const auto add = [&](Ops& ops, OrderId order) {
    const Head first{.revision = Revision{(slot * apart) + order}, .time = time};
    add_put(ops, layout.head(order), head_value(first));
  };
  pb::TxnRequest request;
  pb::TxnRequest& store = *request.add_success()->mutable_request_txn();
  compare_created(store, pb::Compare::EQUAL, layout.version());
  add_put(*store.mutable_success(), layout.version(), version_value());
  for (const OrderId order : {top_order, other_order}) add(*store.mutable_success(), order);
  add_put(*store.mutable_success(), layout.head(no_root), head_value({}));
  store.add_failure()->mutable_request_range()->set_key(layout.version());
  for (const OrderId root : scope.roots) {
    pb::TxnRequest& one = *request.add_success()->mutable_request_txn();
    compare_created(one, pb::Compare::EQUAL, layout.head(root));
    add(*one.mutable_success(), root);
  }
  return request;
}

void MakeHeadsForm::parse(const pb::TxnResponse& response) {
  const pb::TxnResponse& store = response.responses(0).response_txn();
  if (store.succeeded()) return;
  for (const pb::KeyValue& kv : store.responses(0).response_range().kvs()) {
    static_cast<void>(parse_head(kv.value()));
  }
}

pb::TxnRequest PassHeadForm::build(const std::string& key, const Head& beyond) {
  pb::TxnRequest request;
  compare_value(request, pb::Compare::LESS, key, stamp(beyond.revision));
  add_put(*request.mutable_success(), key, head_value(beyond));
  request.add_failure()->mutable_request_range()->set_key(key);
  return request;
}

std::optional<std::int64_t> PassHeadForm::parse(const pb::TxnResponse& response) {
  if (response.succeeded()) return response.header().revision();
  const pb::RangeResponse& found = response.responses(0).response_range();
  if (found.kvs().empty()) return std::nullopt;
  return found.kvs(0).mod_revision();
}

SoleWriter::Commit own_commit(const Plan& plan, const Proposal& proposal, const Answer& answer) {
  const Revision revision = answer.newest();
  SoleWriter::Commit commit{.head = {{.revision = revision, .time = proposal.time}, answer.by_etcd},
                            .on = answer.replaced,
                            .changes = plan.changes(revision)};
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.txn().reads.size(); ++i) {
    if (!plan.reads_anything(i)) continue;
    const pb::RangeResponse* const found = answer.reads[next++];
    if (found == nullptr || found->more() || !plan.hint(i).empty()) continue;
    const bool only_ours = std::ranges::all_of(
        found->kvs(), [&](const pb::KeyValue& kv) { return kv.mod_revision() == answer.by_etcd; });
    if (only_ours && is_in(proposal.order, plan.txn().reads[i])) {
      commit.empty.push_back(plan.txn().reads[i]);
    }
  }
  return commit;
}

}  // namespace tenure::etcd

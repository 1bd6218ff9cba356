#include "store/etcd/form.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/numbers.hpp"
#include "store/etcd/requests.hpp"

namespace tenure::etcd {

std::optional<Position> parse_position(const Layout& layout, const pb::RangeResponse& found) {
  std::optional<Position> position;
  const std::string head = layout.head();
  for (const pb::KeyValue& kv : found.kvs()) {
    const std::int64_t at = kv.mod_revision();
    if (kv.key() == head) {
      const Head parsed = parse_head(kv.value());
      position = {.head = parsed, .put_at = at, .newest = parsed.revision, .newest_at = at};
    } else if (position && at > position->put_at) {  // The tail, newer than the head.
      position->newest = revision_at(position->head.revision, position->put_at, at);
      position->newest_at = at;
    }
  }
  return position;
}

Answer Form::empty_answer(const pb::TxnResponse& response) {
  Answer answer;
  answer.by_etcd = response.header().revision();
  return answer;
}

void Form::parse_position(const Results& results, int first, Answer& answer) const {
  answer.position = etcd::parse_position(plan_.layout(), results.Get(first).response_range());
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
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): parse_reads() has read the position.
  answer.verdict = plan_.refusal_is_certain(answer.position->head.revision)
                       ? Verdict::refused
                       : Verdict::guard_unclear;
}

void Form::commit(std::uint64_t head, Answer& answer) {
  answer.verdict = Verdict::committed;
  answer.position = {.head = {.revision = Revision{head}, .time = {}},
                     .put_at = answer.by_etcd,
                     .newest = Revision{head},
                     .newest_at = answer.by_etcd};
}

namespace {

class ReadForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    for (auto* const ops : {request.mutable_success(), request.mutable_failure()}) {
      plan().add_head_and_tail(*ops);
      plan().add_reads(*ops);
    }
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    parse_position(response.responses(), 0, answer);
    if (!answer.position) return answer;
    if (response.succeeded()) {
      answer.verdict = Verdict::committed;
      parse_reads(response.responses(), 1, answer);
    } else {
      parse_refusal(response.responses(), 1, answer);
    }
    return answer;
  }
};

class RemoveForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    const std::string head = plan().layout().head();
    add_compare(request, pb::Compare::MOD, pb::Compare::GREATER, head)
        ->set_mod_revision(proposal().oldest);
    compare_value(request, pb::Compare::LESS, head, stamp(Revision{proposal().last}));
    plan().add_removals(*request.mutable_success());
    plan().add_tail(*request.mutable_success(), proposal().time);
    for (auto* const ops : {request.mutable_success(), request.mutable_failure()}) {
      plan().add_head_and_tail(*ops);
      plan().add_reads(*ops);
    }
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    const int first = response.succeeded() ? plan().operations() : 0;
    parse_position(response.responses(), first, answer);
    if (!answer.position) return answer;
    if (response.succeeded()) {
      answer.verdict = Verdict::committed;
      parse_reads(response.responses(), first + 1, answer);
    } else if (answer.position->put_at <= proposal().oldest ||
               answer.position->head.revision.value >= proposal().last) {
      answer.verdict = Verdict::head_too_old;
    } else {
      parse_refusal(response.responses(), 1, answer);
    }
    return answer;
  }
};

class OneHeadForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    compare_value(request, pb::Compare::LESS, plan().layout().head(), stamp(smallest()));
    plan().add_assumptions(request);
    plan().add_writes(*request.mutable_success(), proposal().heads[0], proposal().time);
    plan().add_reads(*request.mutable_success());
    plan().add_head_and_tail(*request.mutable_failure());
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
    parse_position(results, 0, answer);
    if (!answer.position) return answer;
    parse_keys(results, 1, answer);
    if (answer.position->head.revision >= smallest()) {
      answer.verdict = Verdict::outrun;
    } else if (!keys_are_as_assumed(answer)) {
      answer.verdict = Verdict::key_changed;
    } else {
      parse_refusal(results, 1 + plan().assumed(), answer);
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
    add_halves(*request.add_success()->mutable_request_txn(), 0, proposal().heads.size() - 1);
    plan().add_reads(*request.mutable_success());
    plan().add_head_and_tail(*request.mutable_failure());
    plan().add_reads(*request.mutable_failure());
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    if (!response.succeeded()) {
      parse_position(response.responses(), 0, answer);
      if (answer.position) parse_refusal(response.responses(), 1, answer);
      return answer;
    }
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
    parse_position(node->responses(), 0, answer);
    parse_keys(node->responses(), 1, answer);
    if (!answer.position) return answer;
    const bool outrun = answer.position->head.revision.value >= proposal().heads.back();
    answer.verdict = outrun ? Verdict::outrun : Verdict::key_changed;
    return answer;
  }

 private:
  // A node finds the first of the heads from `low` to `high` that is larger than the current one.
  // NOLINTNEXTLINE(misc-no-recursion): at most six deep.
  void add_halves(pb::TxnRequest& node, std::size_t low, std::size_t high) const {
    const std::size_t middle = (low + high) / 2;
    const std::uint64_t head = proposal().heads[middle];
    compare_value(node, pb::Compare::LESS, plan().layout().head(), stamp(Revision{head}));
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

  void add_what_is_there(Plan::Ops& ops) const {
    plan().add_head_and_tail(ops);
    plan().add_assumed_keys(ops);
  }
};

// NOLINTBEGIN(bugprone-unchecked-optional-access): its proposals have `own`.
class SoleWriterForm final : public Form {
 public:
  using Form::Form;

  void build(pb::TxnRequest& request) const override {
    plan().add_guards(request);
    compare_value(request, pb::Compare::EQUAL, plan().layout().head(),
                  head_value(proposal().own->head));
    if (plan().puts()) {
      plan().add_writes(*request.mutable_success(), proposal().heads[0], proposal().time);
    } else {
      plan().add_removals(*request.mutable_success());
      plan().add_tail(*request.mutable_success(), proposal().time);
    }
    plan().add_reads(*request.mutable_success(), &*proposal().own);
  }

  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const override {
    Answer answer = empty_answer(response);
    answer.verdict = Verdict::head_not_ours;
    if (!response.succeeded()) return answer;
    const PutHead& own = proposal().own->head;
    if (plan().puts()) {
      commit(proposal().heads[0], answer);
      answer.replaced = own.revision;
    } else {
      answer.verdict = Verdict::committed;
      answer.position = {.head = own,
                         .put_at = own.put_at,
                         .newest = revision_at(own.revision, own.put_at, answer.by_etcd),
                         .newest_at = answer.by_etcd};
    }
    parse_reads(response.responses(), plan().operations(), answer, &*proposal().own);
    return answer;
  }
};
// NOLINTEND(bugprone-unchecked-optional-access)

}  // namespace

std::unique_ptr<const Form> make_form(const Plan& plan, const Proposal& proposal) {
  switch (proposal.shape) {
    case Shape::remove: return std::make_unique<RemoveForm>(plan, proposal);
    case Shape::one_head: return std::make_unique<OneHeadForm>(plan, proposal);
    case Shape::several_heads: return std::make_unique<SeveralHeadsForm>(plan, proposal);
    case Shape::sole_writer: return std::make_unique<SoleWriterForm>(plan, proposal);
    case Shape::read: break;
  }
  return std::make_unique<ReadForm>(plan, proposal);
}

pb::TxnRequest QuestionForm::build() const {
  pb::TxnRequest request;
  plan_.add_head_and_tail(*request.mutable_success());
  plan_.add_reads(*request.mutable_success());
  plan_.add_questions(*request.mutable_success());
  return request;
}

Answer QuestionForm::parse(const pb::TxnResponse& response) const {
  Answer answer;
  answer.by_etcd = response.header().revision();
  answer.position = parse_position(plan_.layout(), response.responses(0).response_range());
  if (!answer.position) return answer;
  int next = 1;
  for (std::size_t i = 0; i < plan_.txn().reads.size(); ++i) {
    if (!plan_.reads_anything(i)) continue;
    answer.reads.push_back(&response.responses(next++).response_range());
  }
  answer.verdict = Verdict::committed;
  for (const std::size_t i : plan_.open_questions()) {
    const pb::RangeResponse& newest = response.responses(next++).response_range();
    if (newest.kvs().empty()) continue;
    const Revision changed = parse_value(newest.kvs(0).value()).changed;
    if (changed > plan_.txn().guards[i].revision) answer.verdict = Verdict::refused;
  }
  return answer;
}

pb::TxnRequest MakeHeadForm::build(const Layout& layout, const Head& head) {
  pb::TxnRequest request;
  compare_created(request, pb::Compare::EQUAL, layout.head());
  add_put(*request.mutable_success(), layout.head(), head_value(head));
  return request;
}

pb::TxnRequest PassHeadForm::build(const Layout& layout, const Head& beyond) {
  pb::TxnRequest request;
  compare_value(request, pb::Compare::LESS, layout.head(), stamp(beyond.revision));
  add_put(*request.mutable_success(), layout.head(), head_value(beyond));
  request.add_failure()->mutable_request_range()->set_key(layout.head());
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
    if (only_ours) commit.empty.push_back(plan.txn().reads[i]);
  }
  return commit;
}

}  // namespace tenure::etcd

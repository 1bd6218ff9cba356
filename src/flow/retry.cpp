// Workflows that failed or cannot go on: started again, loaded again, or ended without their code.
#include <future>
#include <map>

#include "flow/children.hpp"
#include "flow/core.hpp"
#include "flow/queries.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

constexpr std::chrono::milliseconds retry_message_pause{100};  // The store cannot be read.

}  // namespace

std::shared_ptr<Instance> Core::find_instance(const std::string& id) const {
  const base::Mutex::Scoped lock{mutex_};
  const auto at = instances_.find(id);
  return at == instances_.end() ? nullptr : at->second;
}

// Where it cannot go on: what it dropped meanwhile is read again.
void Core::reload(const std::string& id) {
  const std::shared_ptr<Instance> here = find_instance(id);
  if (!here || here->problem().empty()) return;
  here->abandon();
  static_cast<void>(remove(*here));
  offer(id, {Event::Load{}});
  read_again(id);
}

void Core::read_again(const std::string& id) {
  inbox_.forget(id);
  post([this] { read_inbox(); });
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the old id, then the new one.
void Core::start_retry(const std::string& id, const std::string& as, Engine::Started started) {
  const std::optional<Entry> found = read(keys::record(partition_of(id), id));
  if (!found) throw NoSuchWorkflow("there is no workflow '" + id + "'");
  Record record = parsed_record(*found);
  if (!is_terminal(record.state) || record.state == FlowState::completed) {
    throw BadRequest("workflow '" + id + "' is " + std::string{text_of(record.state)} +
                     ": only one that failed, was cancelled or timed out is started again");
  }
  StartOptions options;
  options.id = as;
  options.tags = std::move(record.tags);
  options.tags.insert_or_assign("retry_of", id);
  start(record.type, std::move(record.input), std::move(options), std::move(started));
}

Run Core::retry(const std::string& id) {
  const FlowInfo info = queries().info(id);
  if (!is_terminal(info.state)) {
    send(id, {.kind = Message::Kind::retry, .workflow = {}, .name = {}, .value = {}}, {});
    return {shared_from_this(), id};
  }
  const std::string as = queries().retry_id(id);
  std::promise<Run> promise;
  std::future<Run> future = promise.get_future();
  start_retry(id, as, [&promise](std::optional<Run> run, const std::exception_ptr& error) {
    if (error) {
      promise.set_exception(error);
    } else {
      promise.set_value(*std::move(run));
    }
  });
  return future.get();
}

// The sender chose the new id: a message that is handled twice starts one workflow.
void Core::retry_told(const Message& message, const std::string& key) {
  const ReignRef reign = partitions_->owner(partition_of(message.workflow));
  if (!reign || stopping()) return;
  const auto done = [self = shared_from_this(), key, reign] {
    Txn txn;
    txn.guards = reign->guards;
    txn.writes.push_back(Write::remove(key));
    self->begin_commit();
    self->store_->apply_then(std::move(txn),
                             [self, key](const Outcome&, const std::exception_ptr&) {
                               self->message_done(key);
                               self->end_commit();
                             });
  };
  const auto judge = [self = shared_from_this(), message, key,
                      done](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const StoreError&) {
      self->post_at(detail::saturating_add(self->store_->latest_now(), retry_message_pause),
                    [self, message, key] { self->retry_told(message, key); });
      return;
    } catch (const AlreadyStarted&) {  // NOLINT(bugprone-empty-catch): before a crash.
    } catch (const Error& refusal) {
      if (self->stopping()) return;
      self->report(message.workflow,
                   "retry of workflow '" + message.workflow + "': " + std::string{refusal.what()});
    }
    done();
  };
  try {
    if (message.name.empty()) {
      reload(message.workflow);
      done();
      return;
    }
    start_retry(
        message.workflow, message.name,
        [judge](const std::optional<Run>&, const std::exception_ptr& error) { judge(error); });
  } catch (...) {
    judge(std::current_exception());
  }
}

// --- the end of one that cannot go on

bool Instance::end_stuck(Event::Told terminate) {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (gone_ || problem_.empty()) return false;
    problem_.clear();
    stuck_ = true;
    reload_ = true;
    mailbox_.push_back({std::move(terminate)});
    if (pumping_ || committing_) return true;
    pumping_ = true;
  }
  core_.post([self = shared_from_this()] { self->pump(); });
  return true;
}

// No frame says what it holds: the store and the log do. A timer that is left finds no workflow,
// and is removed when it is due.
void Instance::drop_stuck_work(Turn& turn) {
  const std::string anchors =
      keys::anchor(partition_, id_, {}).substr(0, keys::anchor(partition_, id_, {}).size() - 8);
  Txn read;
  read.reads.push_back(Range::prefix(anchors));
  const Outcome held = core_.store().apply(read);
  for (const Entry& entry : held.reads.front()) {
    // Another workflow's id may begin with this one's.
    if (entry.key.size() == anchors.size() + 8) {
      turn.txn.writes.push_back(Write::remove(entry.key));
    }
  }
  std::map<std::string, bool> children;  // By id: whether it runs.
  const Queries queries{core_.store(), core_.partitions()};
  const FlowHistory history = queries.stored_history(id_);
  for (const LogEntry& entry : history.entries) {
    if (entry.kind == EntryKind::child_started) {
      children[Codec<std::string>::decode(entry.value)] = true;
    } else if (entry.kind == EntryKind::child_done || entry.kind == EntryKind::child_failed) {
      children[entry.name] = false;
    }
  }
  for (const auto& [child, runs] : children) {
    if (!runs) continue;
    send({.kind = Message::Kind::cancel, .workflow = child, .name = {}, .value = {}}, turn);
  }
}

}  // namespace tenure::flow

namespace tenure {

Run Engine::retry(const std::string& id) { return core_->retry(id); }

}  // namespace tenure

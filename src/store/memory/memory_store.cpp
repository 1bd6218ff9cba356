#include "tenure/memory_store.hpp"

#include <string>
#include <utility>

#include "store/common/post_queue.hpp"
#include "store/common/queued_store.hpp"
#include "store/memory/state.hpp"

namespace tenure {

class MemoryStore::OneWatch final : public Watch {
 public:
  OneWatch(std::shared_ptr<State> state, WatchFor what, Notice notice)
      : state_(std::move(state)), watcher_(state_->watch(std::move(what), std::move(notice))) {}
  OneWatch(const OneWatch&) = delete;
  OneWatch& operator=(const OneWatch&) = delete;
  ~OneWatch() override { state_->unwatch(watcher_); }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<State::Watcher> watcher_;
};

class MemoryStore::OneSession final : public Session {
 public:
  OneSession(std::shared_ptr<State> state, const SessionOptions& options)
      : state_(std::move(state)) {
    std::tie(id_, life_) = state_->open(options);
  }
  OneSession(const OneSession&) = delete;
  OneSession& operator=(const OneSession&) = delete;
  ~OneSession() override { state_->end(id_, *life_); }

  [[nodiscard]] const std::string& id() const noexcept override { return id_; }
  [[nodiscard]] Guard guard() const override {
    return Guard::present(std::string{session_prefix} + id_);
  }
  [[nodiscard]] std::stop_token lost() const override { return life_->lost.get_token(); }

 private:
  std::shared_ptr<State> state_;
  std::string id_;
  std::shared_ptr<State::Life> life_;
};

MemoryStore::MemoryStore(Clock clock, Order order)
    : state_(std::make_shared<State>(clock, order)),
      durable_queue_(
          stores::PostQueue::of([state = state_](const Txn& txn) { return state->apply(txn); })) {}
MemoryStore::~MemoryStore() {
  durable_queue_->stop();
  state_->stop();
}

Outcome MemoryStore::apply(const Txn& txn) { return state_->apply(txn); }

void MemoryStore::post(Txn txn, Posted done) noexcept { state_->post(std::move(txn), done); }

void MemoryStore::apply_then(Txn txn, Posted done) noexcept {
  stores::queue_or_fail(std::move(done),
                        [&](Posted own) { durable_queue_->post(std::move(txn), std::move(own)); });
}

void MemoryStore::flush() {
  durable_queue_->wait_until_told();
  Store::flush();
  if (const std::exception_ptr error = durable_queue_->take_error()) std::rethrow_exception(error);
}

std::unique_ptr<Watch> MemoryStore::watch(WatchFor what, Notice notice) {
  return std::make_unique<OneWatch>(state_, std::move(what), std::move(notice));
}

std::unique_ptr<Session> MemoryStore::open_session(const SessionOptions& options) {
  return std::make_unique<OneSession>(state_, options);
}

bool MemoryStore::alive(std::string_view session) { return state_->alive(session); }
Instant MemoryStore::now() { return state_->now(); }
Instant MemoryStore::latest_now() noexcept { return state_->now(); }
std::vector<Store::Fact> MemoryStore::facts() { return state_->facts(); }

void MemoryStore::advance(std::chrono::nanoseconds by) { state_->advance(by); }
void MemoryStore::settle() {
  do {
    durable_queue_->wait_until_told();
    state_->settle();
  } while (!durable_queue_->idle());
}
void MemoryStore::kill_session(std::string_view id) { state_->kill(id, true); }
void MemoryStore::lose_session(std::string_view id) { state_->ring(state_->kill(id, false)); }
void MemoryStore::fail_next(std::size_t count, Fault fault) { state_->fail_next(count, fault); }
void MemoryStore::hold_notices(bool hold) { state_->hold_notices(hold); }
void MemoryStore::before_apply(std::function<void(const Txn&)> hook) {
  state_->set_hook(std::move(hook));
}

}  // namespace tenure

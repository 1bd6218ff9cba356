#include "store/common/queued_store.hpp"

#include <tuple>

#include "tenure/error.hpp"

namespace tenure::stores {

QueuedStore::~QueuedStore() {
  if (forked()) std::ignore = queues_.release();  // They belong to the parent's threads.
}

void QueuedStore::throw_forked() const {
  throw Error("this store was opened before fork(): open it again in the child process");
}

void QueuedStore::post(Txn txn, Posted done) noexcept {
  queue_or_fail(std::move(done), [&](Posted own) {
    check_forked();
    queues_->posted->post(std::move(txn), std::move(own));
  });
}

void QueuedStore::apply_then(Txn txn, Posted done) noexcept {
  queue_or_fail(std::move(done), [&](Posted own) {
    check_forked();
    queues_->durable->post(std::move(txn), std::move(own));
  });
}

void QueuedStore::flush() {
  check_forked();
  queues_->posted->wait_until_told();
  queues_->durable->wait_until_told();
  sync();
  for (PostQueue* const queue : {queues_->posted.get(), queues_->durable.get()}) {
    if (const std::exception_ptr error = queue->take_error()) std::rethrow_exception(error);
  }
}

void QueuedStore::stop_queues() {
  queues_->posted->stop();
  queues_->durable->stop();
}

}  // namespace tenure::stores

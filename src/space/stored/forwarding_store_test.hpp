// forwarding_store_test.hpp: for tests: a store that passes every call on to another. A test
// overrides what it wants to count, delay or change.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::stored {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  Outcome apply(const Txn& txn) override { return store_->apply(txn); }
  void post(Txn txn, Posted done) noexcept override {
    store_->post(std::move(txn), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override {
    return store_->watch(std::move(what), std::move(notice));
  }
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override {
    return store_->open_session(options);
  }
  [[nodiscard]] bool alive(std::string_view session) override { return store_->alive(session); }
  [[nodiscard]] Instant now() override { return store_->now(); }
  [[nodiscard]] Instant latest_now() noexcept override { return store_->latest_now(); }
  [[nodiscard]] std::vector<Fact> facts() override { return store_->facts(); }

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace tenure::stored

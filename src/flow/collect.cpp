// Debounced calls and items of batches, as callers make them: a message to the owner of the row. No
// caller reads or changes the row, so callers do not conflict.
#include "flow/collect_rule.hpp"
#include "flow/core.hpp"

namespace tenure::flow {

void Core::collect(const CollectCall& call, std::string_view id,
                   std::chrono::nanoseconds remember) {
  begin();
  const std::string row = collect_row(call.options, call.type);
  const Partition partition = partition_of(row);
  CollectCall sent = call;
  sent.at = store_->now();
  Txn txn;
  txn.durability = options_.durability;
  if (!id.empty()) {
    const Generation now = generation_at(remember, sent.at);
    const auto key = [&](std::int64_t number) {
      return keys::call_ids(partition, row, now.width, number).append(id);
    };
    txn.guards.push_back(Guard::absent(key(now.number)));
    txn.guards.push_back(Guard::absent(key(now.number - 1)));
    txn.writes.push_back(Write::put(key(now.number), ""));
    sent.generation = now;
  }
  txn.writes.push_back(Write::append(
      keys::trigger_inbox(partition, 'c'),
      encode(Message{
          .kind = Message::Kind::collect, .workflow = row, .name = {}, .value = encode(sent)})));
  static_cast<void>(store_->apply(txn));  // Refused: the id was used before.
}

}  // namespace tenure::flow

namespace tenure {

void Engine::call_debounced(const DebounceOptions& options, std::string_view type,
                            std::string input) {
  flow::CollectCall call;
  call.options = flow::checked(options, type);
  flow::check_id(type, options.call_id, options.remember);
  static_cast<void>(core_->check_start(type, input));
  call.type = type;
  call.input = std::move(input);
  core_->collect(call, options.call_id, options.remember);
}

void Engine::add_to_batch(const BatchOptions& options, std::string_view type, std::string item) {
  flow::CollectCall call;
  call.options = flow::checked(options, type);
  flow::check_id(type, options.item_id, options.remember);
  static_cast<void>(core_->check_start(type, "[[" + item + "]]"));
  if (item.size() > flow::max_batch_bytes) {
    throw BadRequest("an item of batch '" + std::string{type} + "' has " +
                     std::to_string(item.size()) + " bytes; use at most " +
                     std::to_string(flow::max_batch_bytes));
  }
  call.type = type;
  call.input = std::move(item);
  core_->collect(call, options.item_id, options.remember);
}

}  // namespace tenure

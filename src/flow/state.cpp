#include "tenure/state.hpp"

#include <algorithm>
#include <expected>
#include <random>
#include <thread>

#include "tenure/path.hpp"

namespace tenure {
namespace {

// Of all slots; then the address as a path, each segment with its length in front.
constexpr std::string_view slot_prefix = reserved::flow_slots;
constexpr std::string_view workflow_scope = "workflow";
constexpr std::string_view execution_scope = "execution";

double uniform() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>{0, 1}(generator);
}

}  // namespace

class SlotAddresses {
 public:
  static SlotAddress of(const Path& path) {
    std::string key{slot_prefix};
    key += path.bytes();
    return {std::move(key), path.text()};
  }
};

SlotAddress slot::workflow(std::string_view type, std::string_view key) {
  return SlotAddresses::of(Path::of(workflow_scope, type, key));
}

SlotAddress slot::execution(std::string_view id, std::string_view key) {
  return SlotAddresses::of(Path::of(execution_scope, id, key));
}

SlotAddress slot::parse(std::string_view text) {
  const std::expected<Path, PathError> path = Path::parse(text);
  if (!path.has_value()) throw BadRequest(path.error().message(text));
  const std::string_view scope = path->depth() == 3 ? *path->segments().begin() : "";
  if (scope != workflow_scope && scope != execution_scope) {
    throw BadRequest("'" + std::string{text} +
                     "' is not the address of a slot: write workflow/TYPE/KEY or "
                     "execution/ID/KEY");
  }
  return SlotAddresses::of(*path);
}

namespace detail {

StateSlot::StateSlot(std::shared_ptr<Store> store, SlotAddress address, StateOptions options)
    : store_(std::move(store)), address_(std::move(address)), options_(std::move(options)) {
  if (options_.max_attempts == 0) throw BadRequest("max_attempts must be at least 1");
}

std::optional<std::string> StateSlot::read() const {
  Txn txn;
  txn.reads.push_back(Range::key(address_.key()));
  Outcome outcome = store_->apply(txn);
  if (outcome.reads.front().empty()) return std::nullopt;
  return std::move(outcome.reads.front().front().value);
}

void StateSlot::write(std::string value) const {
  Txn txn;
  txn.writes.push_back(Write::put(address_.key(), std::move(value)));
  txn.durability = options_.durability;
  store_->apply(txn);
}

bool StateSlot::remove() const {
  bool removed = false;
  transact([&removed](const std::optional<std::string>& bytes) -> Step {
    removed = bytes.has_value();
    return {.kind = removed ? Step::Kind::remove : Step::Kind::keep, .value = {}};
  });
  return removed;
}

void StateSlot::transact(const std::function<Step(const std::optional<std::string>&)>& step) const {
  Txn txn;
  txn.reads.push_back(Range::key(address_.key()));
  Outcome outcome = store_->apply(txn);
  txn.durability = options_.durability;
  for (std::uint32_t attempt = 0; attempt < options_.max_attempts; ++attempt) {
    if (attempt > 0) wait_before(attempt);
    std::optional<std::string> bytes;
    txn.guards.assign(1, Guard::absent(address_.key()));
    if (!outcome.reads.front().empty()) {
      Entry& entry = outcome.reads.front().front();
      txn.guards.front() = Guard::unchanged(address_.key(), entry.changed);
      bytes = std::move(entry.value);
    }
    Step made = step(bytes);
    if (made.kind == Step::Kind::keep) return;
    txn.writes.assign(1, made.kind == Step::Kind::put
                             ? Write::put(address_.key(), std::move(made.value))
                             : Write::remove(address_.key()));
    outcome = store_->apply(txn);
    if (outcome.committed) return;
  }
  throw StateConflict("slot '" + address_.text() + "': gave up after " +
                      std::to_string(options_.max_attempts) +
                      " conflicting writes; the slot is as others left it: try again later");
}

void StateSlot::wait_before(std::uint32_t attempt) const {
  const double steps = std::min<double>(attempt - 1, 30);
  const auto most = std::min(std::chrono::duration<double, std::nano>(options_.cap),
                             std::chrono::duration<double, std::nano>(options_.base) *
                                 static_cast<double>(std::uint64_t{1} << unsigned(steps)));
  const double share = options_.random ? options_.random() : uniform();
  const auto delay = std::chrono::duration_cast<std::chrono::nanoseconds>(most * share);
  if (options_.sleep) {
    options_.sleep(delay);
  } else {
    std::this_thread::sleep_for(delay);
  }
}

void StateSlot::refuse_stored(std::string_view why) const {
  throw StateFormat("slot '" + address_.text() + "' contains a value of another type: " +
                    std::string{why} + "; use the type it was written with, or remove the value");
}

void StateSlot::refuse_new(std::string_view why) const {
  throw StateFormat("slot '" + address_.text() +
                    "' is unchanged: the new value cannot be encoded: " + std::string{why});
}

}  // namespace detail
}  // namespace tenure

// state.hpp: values in a store that many processes change, one atomic step at a time, and the
// durable mutex and semaphore that are such values.
//
//   AtomicState<int> visits{store, slot::workflow("transfer", "visits")};
//   visits.increment();
//
//   DurableSemaphore vendor{{.permits = 3, .lease = 60s}};
//   AtomicState<LockRecord> slot{store, slot::workflow("call-vendor", "vendor-api")};
//   if (vendor.try_acquire(slot, {.holder = "run-7", .now = store->now()}).acquired) …
//
// A lock of space.hpp has a queue, fencing tokens and no polling. Use a durable semaphore where a
// lease that ends by itself, and a caller who comes back to ask, are what is wanted.
//
// Values are written by Codec (codec.hpp): JSON, so that people and SQL can read them. This header
// needs nlohmann-json.
//
// Thread safety: all const calls, from any thread, at once. Every call but get() and inspect()
// changes the slot in one apply, guarded on what it read. An apply that loses a race is tried
// again, after a random delay, up to StateOptions::max_attempts times.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/codec.hpp"
#include "tenure/detail/await_shapes.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"

namespace tenure {

// So many other writers changed the slot between our read and our write that the call gave up.
class StateConflict : public Error {
 public:
  using Error::Error;
};

// What a slot contains is not a value of the type that was asked for, or a value cannot be encoded.
class StateFormat : public Error {
 public:
  using Error::Error;
};

// Where a slot is. text() is what an operator writes down; slot::parse() reads it back.
//
//   workflow/transfer/account-42:lock     shared by all runs of the workflow type "transfer"
//   execution/run-7/total                 shared by the run "run-7" and its children
class SlotAddress {
 public:
  [[nodiscard]] const std::string& key() const noexcept { return key_; }  // In the store.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  friend bool operator==(const SlotAddress&, const SlotAddress&) = default;

 private:
  friend class SlotAddresses;
  SlotAddress(std::string key, std::string text) : key_(std::move(key)), text_(std::move(text)) {}
  std::string key_;
  std::string text_;
};

namespace slot {
// Each part may have any bytes. Throws BadRequest when the address would be too long.
[[nodiscard]] SlotAddress workflow(std::string_view type, std::string_view key);
[[nodiscard]] SlotAddress execution(std::string_view id, std::string_view key);
// Throws BadRequest for a text that is no address, and says why.
[[nodiscard]] SlotAddress parse(std::string_view text);
}  // namespace slot

struct StateOptions {
  Durability durability = Durability::full;
  std::uint32_t max_attempts = 100;
  // The delay before attempt n is random, up to the smaller of base * 2^n and cap.
  std::chrono::nanoseconds base = std::chrono::milliseconds{1};
  std::chrono::nanoseconds cap = std::chrono::milliseconds{250};
  std::function<void(std::chrono::nanoseconds)> sleep = nullptr;  // Null: the thread sleeps.
  std::function<double()> random = nullptr;                       // In [0, 1). Null: a generator.
};

// What a transition makes of a slot, and what it tells its caller.
template <class T, class R>
struct Transition {
  enum class Kind : std::uint8_t { keep, put, remove };
  Kind kind = Kind::keep;
  std::optional<T> value;  // Of a put.
  R result;
};

namespace detail {

// The slot as bytes.
class StateSlot {
 public:
  StateSlot(std::shared_ptr<Store> store, SlotAddress address, StateOptions options);

  struct Step {
    enum class Kind : std::uint8_t { keep, put, remove };
    Kind kind = Kind::keep;
    std::string value;
  };
  [[nodiscard]] const SlotAddress& address() const noexcept { return address_; }
  [[nodiscard]] std::optional<std::string> read() const;
  void write(std::string value) const;
  bool remove() const;  // NOLINT(modernize-use-nodiscard)
  // Calls `step` with what the slot contains, as often as it takes.
  void transact(const std::function<Step(const std::optional<std::string>&)>& step) const;
  // Both throw StateFormat.
  [[noreturn]] void refuse_stored(std::string_view why) const;
  [[noreturn]] void refuse_new(std::string_view why) const;

 private:
  void wait_before(std::uint32_t attempt) const;

  std::shared_ptr<Store> store_;
  SlotAddress address_;
  StateOptions options_;
};

}  // namespace detail

template <class T>
class AtomicState {
 public:
  // `initial` is what a slot that does not exist yet is read as.
  AtomicState(std::shared_ptr<Store> store, SlotAddress address, std::optional<T> initial = {},
              StateOptions options = {})
      : slot_(std::move(store), std::move(address), std::move(options)),
        initial_(std::move(initial)) {}

  [[nodiscard]] const SlotAddress& address() const noexcept { return slot_.address(); }
  [[nodiscard]] std::optional<T> get() const { return decode(slot_.read()); }
  void set(const T& value) const { slot_.write(encode(value)); }

  // f(std::optional<T>) returns a Transition<T, R>; the call returns R. f may be called several
  // times and must do nothing else.
  template <class F>
  auto transact(F f) const {
    using Made = std::invoke_result_t<F&, std::optional<T>>;
    using Result = decltype(Made::result);
    using Step = detail::StateSlot::Step;
    std::optional<Result> result;
    slot_.transact([&](const std::optional<std::string>& bytes) -> Step {
      Made made = f(decode(bytes));
      result.emplace(std::move(made.result));
      switch (made.kind) {
        case Made::Kind::keep: return {};
        case Made::Kind::remove: return {.kind = Step::Kind::remove, .value = {}};
        case Made::Kind::put: break;
      }
      return {.kind = Step::Kind::put, .value = encode(made.value.value())};
    });
    return *std::move(result);
  }

  // f(std::optional<T>) returns the new value; so does the call.
  template <class F>
  T update(F f) const {
    return transact([&f](std::optional<T> old) {
      T value = f(std::move(old));
      return Transition<T, T>{Transition<T, T>::Kind::put, value, value};
    });
  }
  // False: there was no value.
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers want it gone, not to know.
  bool remove() const { return slot_.remove(); }
  // Writes only if get() would return `expected`. False: it would not.
  bool compare_and_swap(const std::optional<T>& expected, const T& desired) const {
    return transact([&](const std::optional<T>& old) {
      using Made = Transition<T, bool>;
      if (old != expected) return Made{Made::Kind::keep, {}, false};
      return Made{Made::Kind::put, desired, true};
    });
  }

  // Adds to a number; no value counts as zero. Returns the sum. Throws BadRequest where it would
  // not fit into T.
  T increment(T by = T{1}) const
    requires std::is_arithmetic_v<T>
  {
    return update([by](std::optional<T> old) {
      T sum{};
      if constexpr (std::is_integral_v<T>) {
        if (__builtin_add_overflow(old.value_or(T{}), by, &sum)) {
          throw BadRequest("the sum does not fit into the slot's type: the slot is unchanged");
        }
      } else {
        sum = old.value_or(T{}) + by;
      }
      return sum;
    });
  }
  // Adds to the end of a list; no value counts as an empty one. Returns the new length.
  template <class Element>
    requires requires(T list, Element element) { list.push_back(std::move(element)); }
  std::size_t append(Element element) const {
    return update([&element](std::optional<T> old) {
             T list = std::move(old).value_or(T{});
             list.push_back(element);
             return list;
           })
        .size();
  }
  // A JSON merge patch (RFC 7396): the members of `patch` replace those of the value, null removes
  // one. Throws StateFormat where what results is not a T; the slot is then unchanged.
  T merge(const nlohmann::json& patch) const
    requires(Codec<T>::is_json)
  {
    return update([this, &patch](const std::optional<T>& old) {
      nlohmann::json json = old.has_value() ? nlohmann::json(*old) : nlohmann::json::object();
      json.merge_patch(patch);
      try {
        return json.get<T>();
      } catch (const std::exception& error) {
        slot_.refuse_new(error.what());
      }
    });
  }

 private:
  [[nodiscard]] std::optional<T> decode(const std::optional<std::string>& bytes) const {
    if (!bytes.has_value()) return initial_;
    try {
      return Codec<T>::decode(*bytes);
    } catch (const std::exception& error) {
      slot_.refuse_stored(error.what());
    }
  }
  [[nodiscard]] std::string encode(const T& value) const {
    try {
      return Codec<T>::encode(value);
    } catch (const std::exception& error) {
      slot_.refuse_new(error.what());
    }
  }

  detail::StateSlot slot_;
  std::optional<T> initial_;
};

// What the slot of a durable semaphore contains:
//   {"permits":3,"holders":[{"id":"run-7","until":NS}],"waiters":[{"id":"run-9","until":NS}]}
struct LockRecord {
  struct Party {
    std::string id;
    Instant until;  // Its lease is over at this time.
    friend bool operator==(const Party&, const Party&) = default;
  };
  std::uint32_t permits = 1;
  std::vector<Party> holders;
  std::vector<Party> waiters;  // In the order in which they came.
  friend bool operator==(const LockRecord&, const LockRecord&) = default;
};
void to_json(nlohmann::json& json, const LockRecord& record);
void from_json(const nlohmann::json& json, LockRecord& record);

struct SemaphoreOptions {
  std::uint32_t permits = 1;
  std::chrono::nanoseconds lease = std::chrono::seconds{30};
};

// Who calls, and when. The caller passes the time, so that a workflow can pass a recorded one.
struct LockCall {
  std::string holder;
  Instant now;
  std::optional<std::chrono::nanoseconds> lease = std::nullopt;  // Nothing: the semaphore's.
};

struct Acquisition {
  bool acquired = false;
  int position = -1;  // So many wait ahead of the caller; -1 when acquired.
  friend bool operator==(const Acquisition&, const Acquisition&) = default;
};

void to_json(nlohmann::json& json, const Acquisition& acquisition);
void from_json(const nlohmann::json& json, Acquisition& acquisition);

// The rules of a durable semaphore, as pure functions: record, caller and time in, record out.
//   1. A lease is over when its end is at or before `now`. Whoever changes the record removes the
//      holders and waiters whose lease is over; a caller who still waits keeps its own place.
//   2. A waiter acquires when more permits are free than waiters are ahead of it. So grants are in
//      the order of arrival, nobody overtakes, and a waiter that died delays others by at most its
//      lease.
//   3. A holder that acquires again renews its lease.
//   4. All who use a record at one time agree on its permits: LimitMismatch names both numbers.
namespace lock_rules {
using Acquired = Transition<LockRecord, Acquisition>;
using Changed = Transition<LockRecord, bool>;
[[nodiscard]] Acquired try_acquire(const SemaphoreOptions& options, const LockCall& call,
                                   const std::optional<LockRecord>& record);
// The result says whether the caller held a permit or waited.
[[nodiscard]] Changed release(const LockCall& call, const std::optional<LockRecord>& record);
// False: the caller is not a holder, or its lease is over.
[[nodiscard]] Changed renew(const SemaphoreOptions& options, const LockCall& call,
                            const std::optional<LockRecord>& record);
}  // namespace lock_rules

// A counting semaphore in a slot. `Slot` is an AtomicState<LockRecord>, and each call then returns
// its result; or a slot of a workflow, and each call returns an operation to co_await.
class DurableSemaphore {
 public:
  // Throws BadRequest for no permits, or a lease that is not greater than zero.
  explicit DurableSemaphore(SemaphoreOptions options = {});

  // A caller that does not acquire is in the queue. It keeps its place while it asks again within
  // half of its lease; a call writes only when half of the lease is over, or something changed.
  template <class Slot, class Call = LockCall>
  auto try_acquire(Slot&& slot, Call&& call) const {
    check_call<Slot, Call>();
    const auto reduce = [options = options_, own = LockCall(std::forward<Call>(call))](
                            const std::optional<LockRecord>& record) {
      return lock_rules::try_acquire(options, own, record);
    };
    return slot.transact(reduce);
  }
  // Takes the caller out of the holders and of the queue. Does nothing where it is in neither.
  template <class Slot, class Call = LockCall>
  auto release(Slot&& slot, Call&& call) const {
    check_call<Slot, Call>();
    const auto reduce =
        [own = LockCall(std::forward<Call>(call))](const std::optional<LockRecord>& record) {
          return lock_rules::release(own, record);
        };
    return slot.transact(reduce);
  }
  template <class Slot, class Call = LockCall>
  auto renew(Slot&& slot, Call&& call) const {
    check_call<Slot, Call>();
    const auto reduce = [options = options_, own = LockCall(std::forward<Call>(call))](
                            const std::optional<LockRecord>& record) {
      return lock_rules::renew(options, own, record);
    };
    return slot.transact(reduce);
  }
  template <class Slot>
  auto inspect(Slot&& slot) const {
    return slot.get();
  }

 private:
  template <class Slot, class Call>
  static consteval void check_call() {
    if constexpr (requires { typename std::remove_cvref_t<Slot>::Awaited; }) {
      detail::check_awaited_values<Call>();
    }
  }
  SemaphoreOptions options_;
};

// A semaphore with one permit.
class DurableMutex : public DurableSemaphore {
 public:
  struct Options {
    std::chrono::nanoseconds lease = std::chrono::seconds{30};
  };
  DurableMutex() = default;
  explicit DurableMutex(Options options)
      : DurableSemaphore({.permits = 1, .lease = options.lease}) {}
};

}  // namespace tenure

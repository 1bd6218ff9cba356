// What a workflow awaits, apart from what depends on types.
#include <algorithm>

#include "base/duration.hpp"
#include "tenure/context.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure {

Uuid Context::uuid() noexcept {
  Uuid uuid;
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t bits = next_random();
    for (std::size_t i = 0; i < 8; ++i, bits >>= 8U) {
      uuid.bytes.at((8 * half) + i) = static_cast<std::byte>(bits);
    }
  }
  uuid.bytes[6] = (uuid.bytes[6] & std::byte{0x0f}) | std::byte{0x40};
  uuid.bytes[8] = (uuid.bytes[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

namespace detail {

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4U];
    text += digits[static_cast<unsigned char>(c) & 0xfU];
  }
  return text;
}

std::string from_hex(std::string_view digits) {
  const auto value = [](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    throw BadRequest("these are no hexadecimal digits");
  };
  if (digits.size() % 2 != 0) throw BadRequest("there is half a byte too much");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(value(digits[i]) << 4U | value(digits[i + 1]));
  }
  return bytes;
}

// --- steps

StepBase::StepBase(Scope& scope, Step&& options)
    : Operation(scope, OpKind::step, options.name), options_(std::move(options)) {
  if (options_.name.empty()) throw BadRequest("a step must have a name");
  if (options_.retry.max_attempts == 0) {
    throw BadRequest("step '" + options_.name + "': max_attempts must be at least 1");
  }
}

void StepBase::begin() { first_ = machine().now(); }

bool StepBase::take(const LogEntry& entry) {
  switch (entry.kind) {
    case EntryKind::step_done: take_value(entry.value); return true;
    case EntryKind::step_failed: error_ = ErrorInfo::parse(entry.value); return true;
    case EntryKind::step_cancelled: cancelled_by_entry(); return true;
    case EntryKind::step_begun: begun_ = true; return false;
    default: break;
  }
  attempt_ = entry.attempt + 1;
  begun_ = false;
  // Full jitter, from the workflow's own generator: the same in every replay.
  const std::uint32_t doublings = std::min<std::uint32_t>(entry.attempt - 1, 40);
  const auto limit = std::min<double>(static_cast<double>(options_.retry.cap.count()),
                                      static_cast<double>(options_.retry.base.count()) *
                                          static_cast<double>(std::uint64_t{1} << doublings));
  Hasher hasher;
  hasher.add_value(machine().identity().seed);
  hasher.add_value(key().scope);
  hasher.add_value(key().sequence);
  hasher.add_value(entry.attempt);
  const double share = static_cast<double>(hasher.value() >> 11U) * 0x1.0p-53;
  due_ = saturating_add(entry.stamp,
                        std::chrono::nanoseconds{static_cast<std::int64_t>(limit * share)});
  machine().deactivate(*this);
  return false;
}

void StepBase::throw_if_failed() const {
  if (error_) machine().errors().raise(name(), *error_);
}

// --- timers

std::uint64_t hash_of(std::chrono::nanoseconds time) noexcept {
  Hasher hasher;
  hasher.add_value(time.count());
  return hasher.value();
}

std::chrono::nanoseconds checked_pause(std::chrono::nanoseconds time) {
  if (time > base::max_duration) {
    throw BadRequest("a workflow cannot wait longer than a hundred years");
  }
  return std::max(time, std::chrono::nanoseconds::zero());
}

TimerAwait::TimerAwait(Scope& scope, std::chrono::nanoseconds time)
    : Operation(scope, OpKind::timer, "sleep"), time_(checked_pause(time)) {}

TimerAwait::TimerAwait(Scope& scope, Instant until)
    : Operation(scope, OpKind::timer, "sleep_until"), until_(until) {
  static_cast<void>(checked_pause(saturating_sub(until, machine().now())));
}

void TimerAwait::begin() {
  hash_ = hash_of(time_ ? *time_ : until_.time_since_epoch());
  due_ = time_ ? saturating_add(machine().now(), *time_) : until_;
}

// --- signals

SignalBase::SignalBase(Scope& scope, std::string&& name,
                       std::optional<std::chrono::nanoseconds> timeout)
    : Operation(scope, OpKind::signal, std::move(name)), timeout_(timeout) {
  if (timeout_) timeout_ = checked_pause(*timeout_);
}

bool SignalBase::await_ready() {
  if (Operation::await_ready()) return true;
  const std::optional<std::string> value = machine().take_signal(name());
  if (value) try_take(*value);
  return value.has_value();
}

void SignalBase::begin() {
  if (!timeout_) return;
  due_ = saturating_add(machine().now(), *timeout_);
  hash_ = hash_of(*timeout_);
}

bool SignalBase::take(const LogEntry& entry) {
  if (entry.kind == EntryKind::signal) try_take(entry.value);
  return true;
}

void SignalBase::try_take(std::string_view text) noexcept {
  try {
    take_value(text);
  } catch (const std::exception& error) {
    error_ = std::make_exception_ptr(
        BadRequest("the signal '" + name() + "' has a value of another type: " + error.what()));
  }
}

// --- locks

namespace {
std::string shown_claims(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) text += (text.empty() ? "" : " ") + claim.text();
  return text;
}
}  // namespace

LockBase::LockBase(Scope& scope, std::vector<Claim>&& claims)
    : Operation(scope, OpKind::lock, shown_claims(claims)), claims_(std::move(claims)) {
  if (claims_.empty()) throw BadRequest("a lock needs at least one claim");
}

bool LockBase::take(const LogEntry& entry) {
  if (entry.kind == EntryKind::lock_failed) {
    error_ = ErrorInfo::parse(entry.value);
  } else {
    token_ = Codec<Token>::decode(entry.value);
  }
  return true;
}

Token LockBase::granted() const {
  throw_if_cancelled();
  if (error_) {
    if (error_->type == "deadlock") throw Deadlock(error_->message);
    if (error_->type == "limit-mismatch") throw LimitMismatch(error_->message);
    if (error_->type == "evicted") throw Evicted(error_->message);
    if (error_->type == "bad-request") throw BadRequest(error_->message);
    machine().errors().raise(name(), *error_);
  }
  return token_;
}

// --- slots

bool SlotBase::take(const LogEntry& entry) {
  if (entry.kind == EntryKind::slot_failed) {
    error_ = ErrorInfo::parse(entry.value);
  } else {
    take_value(entry.value);
  }
  return true;
}

void SlotBase::throw_if_failed() const {
  if (!error_) return;
  if (error_->type == "conflict") throw StateConflict(error_->message);
  if (error_->type == "format") throw StateFormat(error_->message);
  if (error_->type == "limit-mismatch") throw LimitMismatch(error_->message);
  if (error_->type == "bad-request") throw BadRequest(error_->message);
  machine().errors().raise(name(), *error_);
}

}  // namespace detail
}  // namespace tenure

#include "tenure/store.hpp"

#include <future>
#include <utility>

namespace tenure {

void Store::apply_then(Txn txn, Posted done) noexcept { post(std::move(txn), std::move(done)); }

void Store::apply_later(std::shared_ptr<Deferred> what) noexcept {
  Txn txn = std::move(what->txn);
  apply_then(std::move(txn), [own = std::move(what)](const Outcome& outcome,
                                                     const std::exception_ptr& error) mutable {
    own->outcome = outcome;
    own->error = error;
    Deferred& one = *own;
    one.done(std::move(own));
  });
}

// Posts a transaction behind all others, and waits for it.
void Store::flush() {
  std::promise<void> told;
  post({}, [&told](const Outcome& /*outcome*/, const std::exception_ptr& error) {
    error ? told.set_exception(error) : told.set_value();
  });
  told.get_future().get();
}

std::string prefix_end(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

Range Range::key(std::string key) {
  Range range;
  range.to.reserve(key.size() + 1);
  range.to.append(key).push_back('\0');
  range.from = std::move(key);
  return range;
}

Range Range::prefix(std::string prefix) {
  Range range;
  range.to = prefix_end(prefix);
  range.from = std::move(prefix);
  return range;
}

Range Range::first(std::uint32_t count) const {
  Range range = *this;
  range.limit = count;
  range.reverse = false;
  return range;
}

Range Range::last(std::uint32_t count) const {
  Range range = *this;
  range.limit = count;
  range.reverse = true;
  return range;
}

bool Range::holds(std::string_view key) const noexcept {
  return key >= from && (to.empty() || key < to);
}

Guard Guard::absent(std::string key) {
  return {.kind = Kind::absent, .range = Range::key(std::move(key)), .revision = {}};
}

Guard Guard::present(std::string key) {
  return {.kind = Kind::present, .range = Range::key(std::move(key)), .revision = {}};
}

Guard Guard::unchanged(std::string key, Revision revision) {
  return {.kind = Kind::unchanged, .range = Range::key(std::move(key)), .revision = revision};
}

Guard Guard::quiet(Range range, Revision revision) {
  return {.kind = Kind::quiet, .range = std::move(range), .revision = revision};
}

Write Write::put(std::string key, std::string value) {
  return {.kind = Kind::put, .key = std::move(key), .value = std::move(value)};
}

Write Write::append(std::string prefix, std::string value) {
  return {.kind = Kind::append, .key = std::move(prefix), .value = std::move(value)};
}

Write Write::remove(std::string key) {
  return {.kind = Kind::remove, .key = std::move(key), .value = {}};
}

std::string stamp(Revision revision) {
  std::string bytes(stamp_size, '\0');
  for (std::size_t i = 0; i < stamp_size; ++i) {
    bytes[i] = static_cast<char>(revision.value >> (8 * (stamp_size - 1 - i)) & 0xffU);
  }
  return bytes;
}

Revision stamp_of(std::string_view key) noexcept {
  Revision revision;
  if (key.size() < stamp_size) return revision;
  for (const char byte : key.substr(key.size() - stamp_size)) {
    revision.value = revision.value << 8U | static_cast<unsigned char>(byte);
  }
  return revision;
}

}  // namespace tenure

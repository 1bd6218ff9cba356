#include "store/conformance.hpp"

#include <cctype>
#include <ostream>

#include "tests/kit/patience.hpp"

namespace tenure::conformance {

void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }

std::string kind_name(const ::testing::TestParamInfo<StoreKind>& info) { return info.param.name; }

Store& StoreConformance::store() {
  if (!store_) store_ = place_.open();
  return *store_;
}

Revision StoreConformance::put(std::string key, std::string value) {
  return store().apply(txn({}, {Write::put(std::move(key), std::move(value))})).revision;
}

Revision StoreConformance::remove(std::string key) {
  return store().apply(txn({}, {Write::remove(std::move(key))})).revision;
}

std::vector<Entry> StoreConformance::read(const Range& range) {
  return std::move(store().apply(txn({}, {}, {range})).reads.at(0));
}

Revision StoreConformance::newest() { return store().apply({}).revision; }

bool StoreConformance::holds(Guard guard) {
  return store().apply(txn({std::move(guard)}, {})).committed;
}

Txn txn(std::vector<Guard> guards, std::vector<Write> writes, std::vector<Range> reads) {
  Txn txn;
  txn.guards = std::move(guards);
  txn.writes = std::move(writes);
  txn.reads = std::move(reads);
  return txn;
}

Range everything() { return between(" ", ""); }

Range between(std::string from, std::string to) {
  Range range;
  range.from = std::move(from);
  range.to = std::move(to);
  return range;
}

std::string keys(const std::vector<Entry>& entries) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const Entry& entry : entries) {
    if (!text.empty()) text += ' ';
    for (const char c : entry.key) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isgraph(byte) != 0) {
        text += c;
      } else {
        (text += "\\x") += {digits[byte >> 4U], digits[byte & 15U]};
      }
    }
  }
  return text;
}

void Bell::ring() {
  const std::lock_guard lock{mutex_};
  ++count_;
  rung_.notify_all();
}

void Bell::wait(std::size_t count, std::source_location where) {
  std::unique_lock lock{mutex_};
  if (rung_.wait_for(lock, kit::patience(), [&] { return count_ >= count; })) return;
  kit::give_up("notice " + std::to_string(count_ + 1) + " of " + std::to_string(count), where);
}

}  // namespace tenure::conformance

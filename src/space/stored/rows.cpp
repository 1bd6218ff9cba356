#include "space/stored/rows.hpp"

#include <algorithm>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "space/stored/keys.hpp"

namespace tenure::stored {
namespace {

class Sorter {
 public:
  void add(Entry entry) {
    std::optional<RowKey> key = parse_key(entry.key);
    if (!key.has_value()) {
      add_unreadable(std::move(entry), {}, {.why = "no ticket has such a key"});
      return;
    }
    std::expected<Parsed, RowFault> parsed = read_row(entry);
    if (!parsed.has_value()) {
      add_unreadable(std::move(entry), key, parsed.error());
      return;
    }
    auto pointer = std::move(parsed->pointer);
    auto row = std::move(parsed->row);
    if (pointer.has_value()) {
      pointers_.push_back({std::move(entry), *std::move(key), *std::move(pointer)});
    } else if (!row.has_value() || !claims_key(*row, key->number, entry.key)) {
      add_unreadable(std::move(entry), key, {.why = "its ticket has no such claim"});
    } else {
      std::string name = entry.key;
      tickets_.emplace(
          std::move(name),
          Seen{.entry = std::move(entry), .row = *std::move(row), .number = key->number});
    }
  }

  [[nodiscard]] Rows finish() {
    for (Placed& one : pointers_) {
      const auto found = tickets_.find(row_key(one.pointer.first, one.key.number));
      if (found == tickets_.end()) {
        add_unreadable(std::move(one.entry), one.key, {.why = "its ticket is missing"});
      } else if (!claims_key(found->second.row, one.key.number, one.entry.key)) {
        add_unreadable(std::move(one.entry), one.key, {.why = "its ticket has no such claim"});
      }
    }
    Rows rows;
    for (auto& [key, ticket] : tickets_) rows.tickets.push_back(std::move(ticket));
    std::ranges::sort(rows.tickets, {}, &Seen::number);
    for (auto& [number, found] : unreadable_) rows.unreadable.push_back(std::move(found));
    return rows;
  }

 private:
  struct Placed {
    Entry entry;
    RowKey key;
    Pointer pointer;
  };

  void add_unreadable(Entry entry, const std::optional<RowKey>& key, const RowFault& fault) {
    const Token number = key.has_value() ? key->number : Token{};
    Unreadable& found = unreadable_[number.value];
    if (found.entries.empty()) {
      found.number = number;
      found.why = fault.why;
    }
    if (fault.newer && !std::exchange(found.newer, true)) found.why = fault.why;
    if (key.has_value()) found.claims.push_back(key->claim);
    found.entries.push_back(std::move(entry));
  }

  std::map<std::string, Seen> tickets_;  // By the key of the whole ticket.
  std::vector<Placed> pointers_;
  std::map<std::uint64_t, Unreadable> unreadable_;
};

}  // namespace

bool claims_key(const Row& row, Token number, std::string_view key) {
  return std::ranges::any_of(row.claims, [&](const Claim& claim) {
    return row_key(claim, number) == key || shadow_key(claim, number) == key;
  });
}

Range rows_range() {
  Range range;
  range.from = exclusive_region;
  range.to = session_prefix;
  return range;
}

Rows read_rows(std::vector<Entry> entries) {
  Sorter sorter;
  for (Entry& entry : entries) sorter.add(std::move(entry));
  return sorter.finish();
}

}  // namespace tenure::stored

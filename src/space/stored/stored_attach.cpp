// Tickets that are there already, since they hang on a key: waiting for one that another process or
// a transaction of the caller's appended.
#include <optional>
#include <string>
#include <utility>

#include "space/stored/stored_space.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

bool StoredSpace::attach(Row row, Token number, std::optional<ConflictQuery::Found> found,
                         detail::Waiter& waiter) {
  const Stay stay{*this};
  check_open();
  const auto record = std::make_shared<Record>();
  record->row = std::move(row);
  record->number = number;
  record->adopted = true;
  record->found = std::move(found);
  return ask_somewhere(record, waiter);
}

std::optional<bool> StoredSpace::attach(Token token, const Path& path, detail::Waiter& waiter) {
  const Stay stay{*this};
  check_open();
  std::optional<Seen> seen = tickets().find(token, path);
  if (!seen.has_value()) return std::nullopt;
  if (!seen->row.anchored()) {
    throw BadRequest("ticket " + std::to_string(token.value) +
                     " hangs on the session of the process that asked for it, and ends with that: "
                     "only a ticket of space.anchored(key) can be taken over");
  }
  if (tickets().overdue(seen->row)) {
    tickets().remove(*seen);
    return std::nullopt;
  }
  if (!tickets().alive(seen->row)) {
    tickets().remove_dead(*seen);
    return std::nullopt;
  }
  return attach(std::move(seen->row), token, std::nullopt, waiter);
}

StoredSpace::View StoredSpace::first_view(Record& record) {
  if (!record.adopted) return append(record);
  if (!record.found.has_value()) return look_at_own(record);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it was checked just above.
  return {.found = *std::exchange(record.found, std::nullopt),
          .own = {},
          .anchored = true,
          .at = Revision{record.number.value}};
}

void StoredSpace::throw_waited_for(const Record& record) {
  throw BadRequest("ticket " + std::to_string(record.number.value) +
                   " is waited for already, by another call in this space: wait once per ticket");
}

bool StoredSpace::adopt_request(Record& record) {
  std::optional<Seen> earlier = tickets().find_request(record.row);
  if (!earlier.has_value()) return false;
  if (tickets().overdue(earlier->row)) {
    tickets().remove(*earlier);
    return false;
  }
  record.number = earlier->number;
  record.row = std::move(earlier->row);
  return true;
}

}  // namespace tenure::stored

#include "space/stored/sweeper.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "space/stored/rows.hpp"

namespace tenure::stored {

void Sweeper::note_dead() {
  const base::Mutex::Scoped lock{mutex_};
  due_ = true;
}

void Sweeper::remove_left_behind(std::span<const Entry> sessions) {
  if (sessions.empty()) return;
  Txn read;
  read.reads.push_back(rows_range());
  const Rows all = read_rows(std::move(store_.apply(read).reads.front()));
  for (const Entry& session : sessions) {
    const std::string_view id = std::string_view{session.key}.substr(session_prefix.size());
    for (const Seen& ticket : all.tickets) {
      if (!ticket.row.anchored() && ticket.row.session == id) tickets_.remove_dead(ticket);
    }
    Txn txn;
    txn.guards.push_back(Guard::unchanged(session.key, session.changed));
    txn.writes.push_back(Write::remove(session.key));
    store_.apply(txn);
  }
}

void Sweeper::sweep() noexcept {
  try {
    {
      const base::Mutex::Scoped lock{mutex_};
      if (!std::exchange(due_, false)) return;
    }
    Txn txn;
    txn.reads.push_back(Range::prefix(std::string{session_prefix}));
    Outcome outcome = store_.apply(txn);
    std::vector<Entry>& sessions = outcome.reads.front();
    std::erase_if(sessions, [this](const Entry& entry) {
      return store_.alive(std::string_view{entry.key}.substr(session_prefix.size()));
    });
    remove_left_behind(sessions);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // A process that one of these blocks removes it itself.
  }
}

}  // namespace tenure::stored

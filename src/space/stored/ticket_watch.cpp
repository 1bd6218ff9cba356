#include "space/stored/ticket_watch.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "space/stored/lifetime.hpp"
#include "space/stored/rows.hpp"

namespace tenure::stored {

StoredTicketWatch::StoredTicketWatch(std::shared_ptr<Store> store, Inspect inspect,
                                     std::function<void()> changed)
    : store_(std::move(store)), inspect_(std::move(inspect)), changed_(std::move(changed)) {}

StoredTicketWatch::~StoredTicketWatch() { watches_.clear(); }

// The watch on entries begins before the look, so that no change falls between them.
std::vector<TicketInfo> StoredTicketWatch::look() {
  const auto notice = [this] {
    const Lifetime::InStore in_store;
    changed_();
  };
  watches_.clear();
  WatchFor entries;
  entries.ranges.push_back(rows_range());
  const Revision before = store_->apply({}).revision;
  entries.after = before;
  watches_.push_back(store_->watch(std::move(entries), notice));
  std::vector<TicketInfo> tickets = inspect_();

  std::set<std::string> sessions;
  std::set<std::string> anchors;
  std::optional<Instant> deadline;
  for (const TicketInfo& ticket : tickets) {
    if (!ticket.anchor.empty()) {
      anchors.insert(ticket.anchor);
    } else if (!ticket.session.empty()) {
      sessions.insert(ticket.session);
    }
    if (ticket.deadline) deadline = std::min(deadline.value_or(*ticket.deadline), *ticket.deadline);
  }
  for (const std::string& session : sessions) {
    WatchFor end;
    end.session = session;
    watches_.push_back(store_->watch(std::move(end), notice));
  }
  WatchFor rest;
  for (const std::string& anchor : anchors) rest.ranges.push_back(Range::key(anchor));
  rest.after = before;
  rest.until = deadline;
  if (!anchors.empty() || deadline) watches_.push_back(store_->watch(std::move(rest), notice));
  return tickets;
}

}  // namespace tenure::stored

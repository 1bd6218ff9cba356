// A ticket of the caller's: appending, looking back, narrowing, removing, and what became of an
// append whose answer was lost.
#include "space/stored/tickets.hpp"

#include <algorithm>
#include <expected>
#include <iterator>
#include <utility>

#include "space/stored/keys.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

std::string owner_key(const Row& row, Token number) {
  return owner_line(row.owner) + stamp(Revision{number.value});
}

void remove_claims(const Row& row, Token number, Txn& txn) {
  for (const Claim& claim : row.claims) {
    txn.writes.push_back(Write::remove(row_key(claim, number)));
    if (std::string shadow = shadow_key(claim, number); !shadow.empty()) {
      txn.writes.push_back(Write::remove(std::move(shadow)));
    }
  }
}

// The row in a ticket's own entry, if it has other limits than `row`. An entry that was not written
// since the append is not parsed.
std::optional<Row> with_other_limits(const Row& row, Token number,
                                     const std::optional<Entry>& own) {
  if (!own.has_value() || own->changed.value == number.value) return std::nullopt;
  std::expected<Parsed, RowFault> parsed = read_row(*own);
  if (!parsed.has_value() || !parsed->row.has_value()) return std::nullopt;
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): checked in the line above.
  Row& stored = *parsed->row;
  if (stored.claims == row.claims && stored.kept == row.kept) return std::nullopt;
  return std::move(stored);
}

// Whether they are claims of one request: set_limit() changes limits.
bool same_but_for_limits(const std::vector<Claim>& a, const std::vector<Claim>& b) {
  return std::ranges::equal(a, b, [](const Claim& one, const Claim& other) {
    const auto limited = [](const Claim& claim) { return claim.mode.limit() != 0; };
    if (!limited(one) || !limited(other)) return one == other;
    return one.path == other.path && one.mode.same_group(other.mode) &&
           one.mode.weight() == other.mode.weight();
  });
}

}  // namespace

Regions Hints::seen() const noexcept {
  return {.shared = shared_.load(std::memory_order_relaxed),
          .groups = groups_.load(std::memory_order_relaxed)};
}

void Hints::learn(Regions seen) noexcept {
  if (seen.shared) shared_.store(true, std::memory_order_relaxed);
  if (seen.groups) groups_.store(true, std::memory_order_relaxed);
}

// ---- Parts of a transaction ----

Tickets::Append::Append(const Row& row, Hints& hints, ConflictQuery::Extent extent)
    : row_(row),
      hints_(hints),
      query_(row.claims, hints.seen(), this_apply, hints.empty_prefixes(), extent,
             {.kept = row.kept, .replaces = row.replaces}) {}

void Tickets::Append::add_to(Txn& txn) {
  txn.guards.push_back(anchor_guard(row_));
  if (row_.id.has_value()) {
    std::string key = request_key(row_.anchor, *row_.id);
    txn.guards.push_back(Guard::absent(key));
    txn.writes.push_back(Write::put(std::move(key), first_claim_text(row_)));
  }
  for (std::size_t i = 0; i < row_.claims.size(); ++i) {
    txn.writes.push_back(Write::append(line_of(row_.claims[i]), claim_text(row_, i)));
    if (std::string shadow = shadow_line(row_.claims[i]); !shadow.empty()) {
      txn.writes.push_back(Write::append(std::move(shadow), shadow_text(row_, i)));
    }
  }
  if (!row_.owner.anonymous()) {
    txn.writes.push_back(Write::append(owner_line(row_.owner), first_claim_text(row_)));
  }
  const std::size_t used = txn.writes.size() + txn.reads.size();
  std::vector<Range> reads = query_.next(0, max_operations - std::min(used, max_operations));
  first_read_ = txn.reads.size();
  reads_ = reads.size();
  if (txn.reads.empty()) {
    txn.reads = std::move(reads);
  } else {
    std::ranges::move(reads, std::back_inserter(txn.reads));
  }
}

Tickets::Appended Tickets::Append::judge(const Outcome& outcome) const {
  Appended result{.number = Token{outcome.revision.value},
                  .found = query_.found(std::span{outcome.reads}.subspan(first_read_, reads_))};
  hints_.learn(result.found.unseen);
  if (result.found.free()) query_.record_empty(hints_.empty_prefixes(), outcome.revision);
  return result;
}

void Tickets::add_removal(const Row& row, Token number, Txn& txn) {
  remove_claims(row, number, txn);
  if (row.id.has_value()) txn.writes.push_back(Write::remove(request_key(row.anchor, *row.id)));
  if (!row.owner.anonymous()) txn.writes.push_back(Write::remove(owner_key(row, number)));
}

Guard Tickets::held(const Row& row, Token number) {
  return Guard::present(row_key(row.claims.front(), number));
}

Row Tickets::add_downgrade(const Seen& ticket, std::span<const Claim> claims, Txn& txn) {
  Row row = ticket.row;
  row.claims.assign(claims.begin(), claims.end());
  row.kept = kept_after_downgrade(ticket.row.ticket(ticket.number), claims);
  row.number = ticket.number;
  txn.guards.push_back(Guard::unchanged(ticket.entry.key, ticket.entry.changed));
  remove_claims(ticket.row, ticket.number, txn);
  for (std::size_t i = 0; i < row.claims.size(); ++i) {
    txn.writes.push_back(Write::put(row_key(row.claims[i], row.number), claim_text(row, i)));
    if (std::string shadow = shadow_key(row.claims[i], row.number); !shadow.empty()) {
      txn.writes.push_back(Write::put(std::move(shadow), shadow_text(row, i)));
    }
  }
  if (row.id.has_value()) {
    txn.writes.push_back(Write::put(request_key(row.anchor, *row.id), first_claim_text(row)));
  }
  if (!row.owner.anonymous()) {
    txn.writes.push_back(Write::put(owner_key(row, row.number), first_claim_text(row)));
  }
  return row;
}

// ---- Looking back ----

// Reads the query in as many steps as it takes (conflict_query.hpp). The last step reads the
// ticket's own entry.
Tickets::View Tickets::look_once(const ConflictQuery& query, const Row& row,
                                 const std::string& own_key) const {
  View view;
  std::vector<std::vector<Entry>> reads;
  do {
    Txn txn;
    txn.guards.push_back(anchor_guard(row));
    txn.reads = query.next(reads.size(), max_operations);
    txn.reads.push_back(Range::key(own_key));
    Outcome outcome = store_->apply(txn);
    view.anchored = outcome.committed;
    view.at = outcome.revision;
    view.own.reset();
    if (!outcome.reads.back().empty()) view.own = std::move(outcome.reads.back().front());
    outcome.reads.pop_back();
    std::ranges::move(outcome.reads, std::back_inserter(reads));
    view.found = query.found(reads);
  } while (view.found.partial && !view.found.blocked() && view.anchored && view.own.has_value());
  return view;
}

Tickets::View Tickets::look_back(const Row& row, Token number) const {
  ConflictQuery::Extent extent = ConflictQuery::Extent::few;
  std::optional<Row> changed;
  for (;;) {
    const Row& now = changed.has_value() ? *changed : row;
    const ConflictQuery query{now.claims,
                              hints_->seen(),
                              Revision{number.value},
                              hints_->empty_prefixes(),
                              extent,
                              {.kept = now.kept, .replaces = now.replaces}};
    View view = look_once(query, row, row_key(row.claims.front(), number));
    if (std::optional<Row> newer = with_other_limits(now, number, view.own)) {
      changed = std::move(newer);
      continue;
    }
    view.changed = changed;
    hints_->learn(view.found.unseen);
    if (view.found.own_only) extent = ConflictQuery::Extent::all;
    if (!view.anchored || !view.own.has_value() || view.found.blocked()) return view;
    if (!view.found.free()) continue;
    query.record_empty(hints_->empty_prefixes(), Revision{number.value});
    return view;
  }
}

// Compares a revision only with ranges of the same apply: other ranges may belong to other roots.
Tickets::Quiet Tickets::read_all(const ConflictQuery& query, std::size_t most) const {
  Quiet quiet;
  std::vector<std::vector<Entry>> reads;
  const bool one_by_one = query.ranges().size() <= most;
  while (reads.size() < query.ranges().size()) {
    Txn txn;
    txn.reads = query.next(reads.size(), max_operations);
    for (Range& range : txn.reads) range.before = {};
    // Always true. It makes the store answer with a revision that covers all roots.
    if (!one_by_one && reads.empty()) txn.guards.push_back(Guard::quiet(rows_range(), this_apply));
    Outcome step = store_->apply(txn);
    if (!one_by_one && reads.empty()) {
      quiet.guards.push_back(Guard::quiet(rows_range(), step.revision));
    }
    for (std::size_t i = 0; one_by_one && i < step.reads.size(); ++i) {
      quiet.guards.push_back(Guard::quiet(query.ranges()[reads.size() + i], step.revision));
    }
    std::ranges::move(step.reads, std::back_inserter(reads));
  }
  quiet.found = query.found(reads);
  return quiet;
}

// ---- An append whose answer was lost ----

std::optional<Entry> Tickets::find_appended(const Row& row) const {
  if (row.id.has_value()) {
    std::optional<Seen> seen = find_request(row);
    if (!seen.has_value()) return std::nullopt;
    return std::move(seen->entry);
  }
  Txn read;
  read.reads.push_back(Range::prefix(line_of(row.claims.front())));
  Outcome outcome = store_->apply(read);
  for (Entry& entry : outcome.reads.front()) {
    std::expected<Parsed, RowFault> parsed = read_row(entry);
    if (!parsed.has_value()) continue;
    const std::optional<Row> found = std::move(parsed->row);
    if (found.has_value() && found->session == row.session && found->request == row.request) {
      return std::move(entry);
    }
  }
  return std::nullopt;
}

// An entry that can be read may still be lost in a crash. Writing it again makes it durable.
std::optional<Entry> Tickets::keep_appended(const Row& row) const {
  while (std::optional<Entry> entry = find_appended(row)) {
    Txn again;
    again.guards.push_back(Guard::unchanged(entry->key, entry->changed));
    again.writes.push_back(Write::put(entry->key, entry->value));
    again.durability = Durability::full;
    if (store_->apply(again).committed) return entry;
  }
  return std::nullopt;
}

std::optional<Seen> Tickets::find_request(const Row& row) const {
  if (!row.id.has_value()) return std::nullopt;
  for (;;) {
    Txn read;
    read.reads.push_back(Range::key(request_key(row.anchor, *row.id)));
    const Outcome outcome = store_->apply(read);
    if (outcome.reads.front().empty()) return std::nullopt;
    const Entry& request = outcome.reads.front().front();
    const Token number{request.created.value};
    Txn read_ticket;
    read_ticket.guards.push_back(Guard::unchanged(request.key, request.changed));
    read_ticket.reads.push_back(Range::key(row_key(first_claim_in(request), number)));
    Outcome found = store_->apply(read_ticket);
    if (!found.committed) continue;  // It was released or downgraded in between.
    if (found.reads.front().empty()) {
      throw StoreError("the ticket of request id " + std::to_string(*row.id) + " at anchor '" +
                       Path::of(row.anchor).text() +
                       "' is missing: find the program that writes "
                       "to this store");
    }
    Entry& entry = found.reads.front().front();
    std::optional<Row> whole = parse_row(entry).row;
    if (!whole.has_value()) refuse_row(entry, {.why = "its ticket is missing"});
    const bool narrowed = whole->number != Token{};
    if (!narrowed && !same_but_for_limits(whole->claims, row.claims)) {
      throw BadRequest("request id " + std::to_string(*row.id) + " at anchor '" +
                       Path::of(row.anchor).text() + "' was used for other claims (ticket " +
                       std::to_string(number.value) + "): use another id");
    }
    return Seen{.entry = std::move(entry), .row = *std::move(whole), .number = number};
  }
}

std::vector<Entry> Tickets::others_of_owner(const Row& row, Token number) const {
  Txn read;
  for (std::size_t depth = 1; depth <= row.owner.id.depth(); ++depth) {
    const Owner owner{row.owner.id.prefix(depth)};
    read.reads.push_back(Range::prefix(owner_line(owner)).first(2));
  }
  Outcome outcome = store_->apply(read);
  std::vector<Entry> others;
  for (std::vector<Entry>& entries : outcome.reads) {
    for (Entry& entry : entries) {
      if (number_in(entry.key) != number) others.push_back(std::move(entry));
    }
  }
  return others;
}

// Writes this entry with a deadline, never a row that was read earlier: a downgrade or an eviction
// may have changed the entry since.
bool Tickets::start_deadline(const Entry& entry, std::optional<Instant>& deadline,
                             Revision& written) const {
  Parsed parsed = parse_row(entry);
  if (!parsed.row.has_value()) return false;  // A downgrade put another claim first.
  Row& row = *parsed.row;
  written = entry.changed;
  if (!row.deadline.has_value()) {
    row.deadline = detail::saturating_add(store_->now(), row.max_hold);
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::put(entry.key, row.text()));
    const Outcome outcome = store_->apply(txn);
    if (!outcome.committed) return false;
    written = outcome.revision;
  }
  deadline = row.deadline;
  return true;
}

}  // namespace tenure::stored

// Asking: a ticket is appended, and its apply already tells whether it is free.
#include "space/stored/stored_space.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

std::string limit_text(std::uint32_t limit) {
  return limit == 0 ? std::string{"no limit"} : "limit " + std::to_string(limit);
}

[[noreturn]] void throw_session_lost() {
  throw SessionLost(
      "the store has ended the session of this process, so its locks are lost: "
      "open the space again");
}

[[noreturn]] void throw_evicted() {
  throw Evicted("an operator evicted this request while it waited");
}

}  // namespace

StoredSpace::StoredSpace(std::shared_ptr<Store> store, const SessionOptions& options)
    : store_(std::move(store)),
      session_(store_->open_session(options)),
      fork_generation_(base::fork_generation()) {
  timers_ = std::make_unique<Timers>([this] { return store_->latest_now(); });
  on_lost_.emplace(session_->lost(), [this] { on_session_lost(); });
  sweep_dead();
}

StoredSpace::~StoredSpace() = default;

void StoredSpace::check_open() const {
  if (forked()) {
    throw Error(
        "this space was opened before fork() and belongs to the parent process: open it after "
        "fork(), in the process that uses it");
  }
  if (closed_.load(std::memory_order_acquire)) throw Closed("this space is closed: open it again");
}

detail::OwnerRef StoredSpace::owner(const Owner& owner) {
  auto state = std::make_shared<detail::OwnerState>();
  state->owner = owner;
  return state;
}

detail::OwnerRef StoredSpace::on_terms(const detail::OwnerRef& owner, const detail::Terms& terms) {
  auto state = std::make_shared<detail::OwnerState>();
  if (owner != nullptr) {
    state->owner = owner->owner;
    state->terms = owner->terms;
  }
  if (terms.max_hold.count() != 0) state->terms.max_hold = terms.max_hold;
  if (!terms.label.empty()) state->terms.label = terms.label;
  return state;
}

Regions StoredSpace::seen_regions() const noexcept {
  return {.shared = seen_shared_.load(std::memory_order_relaxed),
          .groups = seen_groups_.load(std::memory_order_relaxed)};
}

void StoredSpace::learn(Regions seen) noexcept {
  if (seen.shared) seen_shared_.store(true, std::memory_order_relaxed);
  if (seen.groups) seen_groups_.store(true, std::memory_order_relaxed);
}

StoredSpace::RecordRef StoredSpace::new_record(const detail::Ask& ask) {
  check_open();
  if (session_->lost().stop_requested()) throw_session_lost();
  if (const auto fault = find_fault(ask.claims)) throw BadRequest(*fault);
  auto record = std::make_shared<Record>();
  record->row.session = session_->id();
  record->row.request = requests_.fetch_add(1, std::memory_order_relaxed);
  record->row.claims.assign(ask.claims.begin(), ask.claims.end());
  if (ask.owner != nullptr) {
    record->row.owner = ask.owner->owner;
    record->row.label = ask.owner->terms.label;
    record->row.max_hold = ask.owner->terms.max_hold;
  }
  return record;
}

// All live claims of a group on one path have one limit, so the first tells; and while that one is
// there, or the path is empty, nobody can come with another.
bool StoredSpace::agree_on_limits(const Owner& owner, std::span<const Claim> claims, Token own,
                                  Txn& txn) {
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    txn.guards.push_back(Guard::empty(Range::prefix(other_limit_line(claim))));
    if (claim.mode.limit() == 0) continue;
    const Range members = Range::prefix(line_of(claim));
    Txn read;
    read.reads.push_back(members.first(2));
    const Outcome outcome = store_->apply(read);
    std::vector<Entry> first = outcome.reads.front();
    std::erase_if(first, [own](const Entry& entry) { return number_in(entry.key) == own; });
    if (first.empty()) {
      if (own == Token{}) txn.guards.push_back(Guard::empty(members));
      continue;
    }
    if (limit_clash(owner, claim, first.front())) return false;
    txn.guards.push_back(Guard::present(first.front().key));
  }
  return true;
}

// True: a dead one disagreed, and is out of the way. Throws where a live one does.
bool StoredSpace::limit_clash(const Owner& owner, const Claim& asked, const Entry& entry) {
  const std::optional<Seen> seen = resolve(entry);
  if (!seen.has_value()) return true;
  const auto live = std::ranges::find_if(seen->row.claims, [&asked](const Claim& claim) {
    return claim.path == asked.path && claim.mode.same_group(asked.mode);
  });
  if (live == seen->row.claims.end() || live->mode.limit() == asked.mode.limit()) return false;
  if (dead_or_overdue(seen->row)) {
    remove_ticket(*seen);
    return true;
  }
  throw LimitMismatch("group '" + Path::of(asked.mode.name()).text() + "' of '" +
                      asked.path.text() + "' is used with different limits: " + owner.text() +
                      " asks for " + limit_text(asked.mode.limit()) + ", " +
                      seen->row.owner.text() + " (ticket " + std::to_string(seen->number.value) +
                      ") has " + limit_text(live->mode.limit()) +
                      "; use the same limit everywhere");
}

// Why an append was refused; returns where trying again may help.
void StoredSpace::explain_refusal(const Owner& owner, std::span<const Claim> claims, Token own) {
  Txn txn;
  txn.guards.push_back(session_->guard());
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    txn.reads.push_back(Range::prefix(other_limit_line(claim)).first(2));
  }
  const Outcome outcome = store_->apply(txn);
  if (!outcome.committed) throw_session_lost();
  std::size_t read = 0;
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    for (const Entry& entry : outcome.reads[read++]) {
      if (number_in(entry.key) != own) static_cast<void>(limit_clash(owner, claim, entry));
    }
  }
}

bool StoredSpace::append(Record& record, const Look& look, Txn txn, Look::Found& found) {
  Row& row = record.row;
  txn.guards.push_back(session_->guard());
  for (const Claim& claim : row.claims) {
    const bool first = &claim == row.claims.data();
    txn.writes.push_back(Write::append(
        line_of(claim),
        first ? row.text() : Pointer{.session = row.session, .first = row.claims.front()}.text()));
  }
  txn.reads = look.next(0, max_operations - row.claims.size());
  const Outcome outcome = store_->apply(txn);
  if (!outcome.committed) return false;
  record.number = Token{outcome.revision.value};
  found = look.found(outcome.reads);
  learn(found.unseen);
  if (found.free()) look.raise(floors_, outcome.revision);
  return true;
}

// What it sees is as good as a look of its own, but for its own entry.
StoredSpace::View StoredSpace::append(Record& record) {
  record.row.since = store_->now();
  for (;;) {
    Txn txn;
    if (!agree_on_limits(record.row.owner, record.row.claims, {}, txn)) continue;
    const Look look{record.row.claims, seen_regions(), this_apply, floors_};
    Look::Found found;
    try {
      if (append(record, look, std::move(txn), found)) {
        return {.found = std::move(found),
                .own = {},
                .session = true,
                .at = Revision{record.number.value}};
      }
    } catch (const StoreError& error) {
      if (!error.unknown() || !was_taken(record)) throw;
      return look_at_own(record);
    }
    explain_refusal(record.row.owner, record.row.claims, {});
  }
}

// The store does not know whether it took the ticket. Its number is not known either, but which
// request of this session it was. While that can't be read, it is tried again: a ticket that nobody
// knows of would stand in everybody's way for as long as this process lives.
bool StoredSpace::was_taken(Record& record) noexcept {
  try {
    return keep_stray(record);
  } catch (...) {
    {
      const base::Mutex::Scoped lock{mutex_};
      strays_.push_back(record.row);
    }
    start_retrying();
    return false;
  }
}

// That it can be read does not mean that it would survive a crash. What is written again does.
bool StoredSpace::keep_stray(Record& record) {
  while (const std::optional<Entry> entry = stray_of(record.row)) {
    Txn again;
    again.guards.push_back(Guard::unchanged(entry->key, entry->changed));
    again.writes.push_back(Write::put(entry->key, entry->value));
    again.durability = Durability::full;
    if (!store_->apply(again).committed) continue;
    record.number = number_in(entry->key);
    return true;
  }
  return false;
}

std::optional<Entry> StoredSpace::stray_of(const Row& row) {
  Txn read;
  read.reads.push_back(Range::prefix(line_of(row.claims.front())));
  Outcome outcome = store_->apply(read);
  for (Entry& entry : outcome.reads.front()) {
    std::expected<Parsed, std::string> parsed = read_row(entry);
    if (!parsed.has_value()) continue;
    const std::optional<Row> found = std::move(parsed->row);
    if (found.has_value() && found->session == row.session && found->request == row.request) {
      return std::move(entry);
    }
  }
  return std::nullopt;
}

void StoredSpace::remove_stray(const Row& row) {
  const std::optional<Entry> entry = stray_of(row);
  if (!entry.has_value()) return;
  Record stray;
  stray.row = row;
  stray.number = number_in(entry->key);
  retry_later(removal(stray));
}

// A ticket that was taken without a word keeps its place.
StoredSpace::View StoredSpace::look_at_own(const Record& record) {
  View view;
  try {
    view = look_back(record.row.claims, record.number);
  } catch (...) {
    retry_later(removal(record));
    throw;
  }
  if (!view.session) throw_session_lost();
  if (!view.own.has_value()) throw_evicted();
  return view;
}

bool StoredSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  const Stay stay{*this};  // The Space may go as soon as the request can be seen.
  const RecordRef record = new_record(ask);
  if (waiter.caller == detail::Caller::waits || !store_->remote()) {
    return this->ask(record, waiter);
  }
  ask_in_background(record, waiter);
  return false;
}

bool StoredSpace::ask(const RecordRef& record, detail::Waiter& waiter) {
  View view = append(*record);
  enter();
  waiter.grant = {.ticket = record.get(), .token = record->number};
  if (view.found.free() && record->row.max_hold.count() == 0) {
    hold(record);
    return true;
  }
  record->waiter = &waiter;
  {
    const base::Mutex::Scoped lock{mutex_};
    waiting_.emplace(record->number.value, record);
  }
  return wait_in_line(record, std::move(view));
}

// It is in waiting_. True: granted. False: somebody else ends the wait, or has done so.
bool StoredSpace::wait_in_line(const RecordRef& record, View view) {
  Verdict verdict = Verdict::waiting;
  try {
    check_open();
    if (!view.own.has_value()) {
      view.own = Entry{.key = record->first_key(),
                       .value = record->row.text(),
                       .created = view.at,
                       .changed = view.at};
    }
    if (!record->row.owner.anonymous() && !view.found.free()) refuse_deadlock(*record);
    verdict = settle(record, std::move(view));
  } catch (...) {
    if (take(record) == nullptr) return false;
    give_up(record);
    throw;
  }
  if (verdict == Verdict::waiting || take(record) == nullptr) return false;
  if (verdict == Verdict::granted) {
    hold(record);
    return true;
  }
  leave();
  if (verdict == Verdict::session_lost) throw_session_lost();
  throw_evicted();
}

void StoredSpace::give_up(const RecordRef& record) noexcept {
  if (store_->remote()) {
    post_removal(removal(*record), {});
    return;
  }
  try {
    store_->apply(removal(*record));
  } catch (...) {
    retry_later(removal(*record));
  }
  leave();
}

// All that is there, without a ticket of its own. The revision is that of the first step.
Outcome StoredSpace::read_all(const Look& look) {
  Outcome all;
  while (all.reads.size() < look.ranges().size()) {
    Txn txn;
    txn.reads = look.next(all.reads.size(), max_operations);
    for (Range& range : txn.reads) range.before = {};
    Outcome step = store_->apply(txn);
    if (all.reads.empty()) all.revision = step.revision;
    std::ranges::move(step.reads, std::back_inserter(all.reads));
  }
  return all;
}

// A failed try is invisible: it looks first, and appends only if nothing has come in between.
StoredSpace::Try StoredSpace::try_append(Record& record, Look::Extent& extent) {
  Txn txn;
  if (!agree_on_limits(record.row.owner, record.row.claims, {}, txn)) return Try::again;
  const Look before{record.row.claims, seen_regions(), this_apply, floors_, extent};
  const Outcome now = read_all(before);
  Look::Found found = before.found(now.reads);
  learn(found.unseen);
  if (found.blocked()) {
    std::vector<WatchFor> unused;
    if (clear_away_any(found, record.row.claims, Token{this_apply.value}, unused)) {
      return Try::again;
    }
    explain_refusal(record.row.owner, record.row.claims, {});
    return Try::taken;
  }
  if (!found.free()) {
    if (found.own_only) extent = Look::Extent::all;
    return Try::again;
  }
  if (before.ranges().size() + txn.guards.size() < max_operations) {
    for (const Range& range : before.ranges()) {
      txn.guards.push_back(Guard::quiet(range, now.revision));
    }
  } else {  // Too many for one apply: then nothing at all may have come in between.
    txn.guards.push_back(Guard::quiet(rows_range(), now.revision));
  }
  try {
    if (append(record, before, std::move(txn), found)) return Try::appended;
  } catch (const StoreError& error) {
    if (!error.unknown() || !was_taken(record)) throw;
    return Try::appended;  // Then nothing had come in between.
  }
  explain_refusal(record.row.owner, record.row.claims, {});
  return Try::again;
}

bool StoredSpace::try_request(const detail::Ask& ask, detail::Grant& grant) {
  const Stay stay{*this};
  const RecordRef record = new_record(ask);
  record->row.since = store_->now();
  Look::Extent extent = Look::Extent::few;
  Try tried = Try::again;
  while (tried == Try::again) tried = try_append(*record, extent);
  if (tried == Try::taken) return false;
  enter();
  if (record->row.max_hold.count() != 0) {
    try {
      start_own_deadline(*record);
    } catch (...) {
      give_up(record);
      throw;
    }
  }
  hold(record);
  grant = {.ticket = record.get(), .token = record->number};
  return true;
}

void StoredSpace::start_own_deadline(Record& record) {
  for (;;) {
    Txn read;
    read.reads.push_back(Range::key(record.first_key()));
    const Outcome own = store_->apply(read);
    if (own.reads.front().empty()) throw_evicted();
    if (start_deadline(own.reads.front().front(), record.row.deadline)) return;
  }
}

// Only the youngest of a circle can have closed it, so later tickets are not looked at.
void StoredSpace::refuse_deadlock(const Record& record) {
  for (;;) {
    Snapshot all = snapshot();
    remove_overdue(all);
    std::vector<Ticket> tickets;
    for (const Seen& seen : all.tickets) {
      if (seen.number > record.number) continue;
      tickets.push_back(
          {.number = seen.number, .claims = seen.row.claims, .owner = seen.row.owner});
    }
    const std::vector<Wait> cycle = find_cycle(tickets, record.number);
    if (cycle.empty()) return;
    bool removed = false;
    for (const Seen& seen : all.tickets) {
      const bool in_cycle = std::ranges::any_of(cycle, [&seen](const Wait& wait) {
        return wait.waiting == seen.number || wait.blocker == seen.number;
      });
      if (in_cycle && !store_->alive(seen.row.session)) {
        remove_ticket(seen);
        removed = true;
      }
    }
    if (removed) continue;
    throw Deadlock("deadlock: " + describe_cycle(cycle, tickets) +
                   "; release the held lock first, or claim both paths in one request");
  }
}

}  // namespace tenure::stored

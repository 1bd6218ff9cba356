#include "space/stored/stored_space.hpp"

#include <string>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <utility>

#include "space/stored/endings.hpp"
#include "space/stored/ticket_watch.hpp"
#include "space/stored/txn_part.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

// An empty key means that there is no anchor.
void check_anchor(std::string_view key) {
  if (key.size() > max_anchor) {
    throw BadRequest("the anchor key has " + std::to_string(key.size()) + " bytes: use at most " +
                     std::to_string(max_anchor));
  }
  // As unsigned: the first byte may be one of a character that is not ASCII.
  const auto byte = [](char value) { return static_cast<unsigned char>(value); };
  if (!key.empty() && byte(key.front()) <= byte(reserved::owner_tickets.front())) {
    throw BadRequest("the anchor key '" + Path::of(key).text() +
                     "' is one that Tenure keeps tickets and sessions at: use a key of your own");
  }
}

const std::type_info& kind_of(const Store& store) { return typeid(store); }

}  // namespace

StoredSpace::StoredSpace(std::shared_ptr<Store> store, const SessionOptions& options,
                         std::shared_ptr<void> front)
    : front_(std::move(front)),
      store_(std::move(store)),
      session_(store_->open_session(options)),
      life_(
          kind_of(*store_), [this] { end(); }, [this] { delete this; }),
      retries_(*store_, *session_, hints_),
      sweeper_(*store_, hints_),
      blockers_(*store_, hints_, sweeper_),
      holds_(*store_, *session_, hints_, life_, retries_),
      requests_(*store_, *session_, hints_, life_, retries_, blockers_),
      waits_({.store = *store_,
              .session = *session_,
              .hints = hints_,
              .life = life_,
              .retries = retries_,
              .holds = holds_,
              .requests = requests_,
              .blockers = blockers_,
              .sweeper = sweeper_}),
      inspection_(*store_, hints_) {
  on_lost_.emplace(session_->lost(), [this] { on_session_lost(); });
  sweeper_.sweep();
}

StoredSpace::~StoredSpace() = default;

// ---- Requests ----

RecordRef StoredSpace::new_record(const detail::Ask& ask, const GateRef& gate) {
  RecordRef record = ask.held == nullptr
                         ? requests_.new_record(ask)
                         : requests_.new_upgrade(ask, *static_cast<Record*>(ask.held->ticket));
  record->space = this;
  record->gate = gate;
  return record;
}

bool StoredSpace::request(const detail::Ask& ask, detail::Waiter& waiter, const GateRef& gate) {
  const Stay stay{life_};  // The Space may be destroyed as soon as the request can be seen.
  return waits_.request(new_record(ask, gate), waiter);
}

bool StoredSpace::try_request(const detail::Ask& ask, detail::Grant& grant, const GateRef& gate) {
  const Stay stay{life_};
  return waits_.try_request(new_record(ask, gate), grant);
}

bool StoredSpace::try_in_background(const detail::Ask& ask, detail::Waiter& waiter,
                                    const GateRef& gate) {
  if (!store_->remote()) return false;
  const Stay stay{life_};
  waits_.try_in_background(new_record(ask, gate), waiter);
  return true;
}

bool StoredSpace::available(const detail::Ask& ask, const GateRef& gate) {
  const Stay stay{life_};
  return requests_.available(*new_record(ask, gate));
}

bool StoredSpace::usable() noexcept {
  const Stay stay{life_};
  return !life_.closed() && !session_->lost().stop_requested();
}

void StoredSpace::withdraw(detail::Waiter& waiter) noexcept {
  if (!life_.forked()) waits_.withdraw(waiter);
}

bool StoredSpace::attach(Row row, Token number, std::optional<ConflictQuery::Found> found,
                         detail::Waiter& waiter) {
  const Stay stay{life_};
  life_.check_open();
  const auto record = std::make_shared<Record>();
  record->space = this;
  record->row = std::move(row);
  record->number = number;
  record->adopted = true;
  record->found = std::move(found);
  return waits_.request(record, waiter);
}

std::optional<bool> StoredSpace::attach(Token token, const Path& path, detail::Waiter& waiter) {
  const Stay stay{life_};
  life_.check_open();
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

detail::OwnerRef StoredSpace::new_owner(const Owner& owner) {
  auto state = std::make_shared<detail::OwnerState>();
  state->owner = owner;
  return state;
}

detail::OwnerRef StoredSpace::new_terms(const detail::OwnerRef& owner, const detail::Terms& terms) {
  check_anchor(terms.anchor);
  if (terms.part != nullptr) check_part(*terms.part);
  auto state = std::make_shared<detail::OwnerState>();
  if (owner != nullptr) {
    state->owner = owner->owner;
    state->terms = owner->terms;
  }
  state->terms = detail::merge(std::move(state->terms), terms);
  if (terms.request_id.has_value() && state->terms.anchor.empty()) {
    throw BadRequest(
        "a request id needs an anchor, since a session never repeats a request: call "
        "anchored(key) first");
  }
  return state;
}

// ---- Holds ----

bool StoredSpace::release(const detail::Grant& grant) {
  return !life_.forked() && holds_.release(grant);
}

void StoredSpace::drop(const detail::Grant& grant) noexcept {
  if (!life_.forked()) holds_.drop(grant);
}

void StoredSpace::release_then(const detail::Grant& grant, Released done) noexcept {
  if (life_.forked()) {
    done(nullptr, false);
    return;
  }
  holds_.release_then(grant, std::move(done));
}

void StoredSpace::downgrade(detail::Grant& grant, std::span<const Claim> claims) {
  life_.check_process();
  holds_.downgrade(grant, claims, nullptr);
}

bool StoredSpace::release_with(const detail::Grant& grant, const TxnPart& part) {
  life_.check_process();
  check_part(part);
  return holds_.release_with(grant, part);
}

void StoredSpace::release_with_then(const detail::Grant& grant, TxnPart part,
                                    Released done) noexcept {
  if (life_.forked()) {
    Backend::release_with_then(grant, std::move(part), std::move(done));
    return;
  }
  waits_.in_background([this, grant, part = std::move(part)] { return release_with(grant, part); },
                       std::move(done));
}

void StoredSpace::downgrade_with(detail::Grant& grant, std::span<const Claim> claims,
                                 const TxnPart& part) {
  life_.check_process();
  check_part(part);
  holds_.downgrade(grant, claims, &part);
}

bool StoredSpace::renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) {
  life_.check_process();
  return holds_.renew(grant, max_hold);
}

std::vector<Claim> StoredSpace::claims(const detail::Grant& grant) {
  life_.check_process();
  return holds_.claims(grant);
}

std::optional<Instant> StoredSpace::deadline(const detail::Grant& grant) {
  life_.check_process();
  return holds_.deadline(grant);
}

std::vector<Guard> StoredSpace::guard(const detail::Grant& grant) {
  life_.check_process();
  return holds_.guard(grant);
}

std::stop_token StoredSpace::lost(const detail::Grant& grant) {
  life_.check_process();
  return holds_.lost(grant);
}

std::stop_token StoredSpace::asked_to_leave(const detail::Grant& grant) {
  life_.check_process();
  return holds_.asked_to_leave(grant);
}

// Each time: a process that was stopped for longer than its session must not believe an earlier
// answer.
std::stop_token StoredSpace::session_lost() {
  const Stay stay{life_};
  life_.check_open();
  std::stop_token token = lost_.get_token();
  if (session_->lost().stop_requested()) {
    while (!token.stop_requested()) std::this_thread::yield();
  }
  return token;
}

void StoredSpace::detach(const detail::Grant& grant) {
  if (!life_.forked()) holds_.detach(grant);
}

// ---- All tickets ----

std::vector<TicketInfo> StoredSpace::inspect(const Path& path) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.inspect(path);
}

std::vector<TicketInfo> StoredSpace::inspect_waits(const Owner& owner) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.inspect_waits(owner);
}

bool StoredSpace::evict(Token token, bool at_once) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.evict(token, at_once);
}

std::size_t StoredSpace::evict_below(const Path& path, bool at_once) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.evict_below(path, at_once);
}

bool StoredSpace::ask_to_leave(Token token) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.ask_to_leave(token);
}

std::size_t StoredSpace::set_limit(const Claim& limit) {
  const Stay stay{life_};
  life_.check_open();
  return inspection_.set_limit(limit);
}

std::unique_ptr<detail::TicketWatch> StoredSpace::watch(const Path& path,
                                                        std::function<void()> changed) {
  const Stay stay{life_};
  life_.check_open();
  return std::make_unique<StoredTicketWatch>(
      store_, [this, path] { return inspect(path); }, std::move(changed));
}

// ---- The end ----

// Holders first: the end of a wait may have to wait for the store.
void StoredSpace::on_session_lost() noexcept {
  holds_.on_session_lost();
  holds_.fire(lost_);
  waits_.on_session_lost();
}

void StoredSpace::close() noexcept {
  if (life_.forked()) return;
  if (life_.close()) {
    waits_.close();
    life_.leave();
  }
  life_.await_end();
}

void StoredSpace::end() noexcept {
  on_lost_.reset();
  retries_.stop();
  retries_.finish(ending_limit);
  session_.reset();
  waits_.join();
  holds_.join();
  store_.reset();
}

void StoredSpace::abandon() noexcept {
  if (life_.forked()) return;
  close();
  life_.disown();
}

}  // namespace tenure::stored

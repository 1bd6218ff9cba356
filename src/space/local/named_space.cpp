#include "space/local/named_space.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/fork.hpp"
#include "tenure/error.hpp"

namespace tenure::local {
namespace {

// Never destroyed: spaces may be opened and closed while statics are. A forked child has a new one:
// the spaces of its parent are useless there, and the mutex may be locked for ever.
struct Registry {
  const std::uint64_t fork_generation = base::fork_generation();
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<LocalSpace>> spaces;  // Guarded by mutex.
};
Registry& registry() {
  static constinit std::atomic<Registry*> current = nullptr;
  Registry* known = current.load(std::memory_order_acquire);
  while (known == nullptr || base::forked_since(known->fork_generation)) {
    auto made = std::make_unique<Registry>();
    if (current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
      known = made.release();
    }
  }
  return *known;
}

std::shared_ptr<LocalSpace> find_or_make(std::string_view name) {
  if (name.size() > NamedSpace::max_name) {
    throw Error("the name in 'local:NAME' has " + std::to_string(name.size()) +
                " bytes: use at most " + std::to_string(NamedSpace::max_name));
  }
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  std::erase_if(all.spaces, [](const auto& space) { return space.second.expired(); });
  std::weak_ptr<LocalSpace>& known = all.spaces[std::string{name}];
  if (std::shared_ptr<LocalSpace> space = known.lock()) return space;
  const std::shared_ptr<LocalSpace> space{new LocalSpace, [](LocalSpace* gone) {
                                            gone->close();
                                            gone->abandon();
                                          }};
  known = space;
  return space;
}

}  // namespace

NamedSpace::NamedSpace(std::string_view name) : space_(find_or_make(name)) {}

void NamedSpace::check_open() const {
  if (closed_.load(std::memory_order_acquire)) {
    throw Closed("this space is closed: open it again");
  }
}

detail::Grant NamedSpace::request_free(const Claim& claim, const detail::OwnerRef& owner) {
  if (closed_.load(std::memory_order_acquire)) return {};
  enter();
  const detail::Grant grant = space_->request_free(claim, owner);
  if (grant.ticket == nullptr) leave();
  return grant;
}

bool NamedSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  enter();  // For the ticket.
  try {
    const detail::ResumeScope scope;  // Coroutines go on when the mutex is free.
    const std::shared_lock lock{closing_};
    check_open();
    waiter.front = this;
    return space_->request(ask, waiter);
  } catch (...) {
    leave();
    throw;
  }
}

bool NamedSpace::try_request(const detail::Ask& ask, detail::Grant& grant) {
  check_open();
  enter();
  try {
    const bool granted = space_->try_request(ask, grant);
    if (!granted) leave();
    return granted;
  } catch (...) {
    leave();
    throw;
  }
}

bool NamedSpace::available(const detail::Ask& ask) {
  check_open();
  return space_->available(ask);
}

void NamedSpace::withdraw(detail::Waiter& waiter) noexcept {
  space_->withdraw(waiter);
  leave();
}

bool NamedSpace::release(const detail::Grant& grant) {
  const bool held = space_->release(grant);
  leave();
  return held;
}

void NamedSpace::drop(const detail::Grant& grant) noexcept {
  space_->drop(grant);
  leave();
}

void NamedSpace::release_then(const detail::Grant& grant, Released done) noexcept {
  space_->release_then(grant, std::move(done));
  leave();
}

std::unique_ptr<detail::TicketWatch> NamedSpace::watch(const Path& path,
                                                       std::function<void()> changed) {
  check_open();
  return space_->watch(path, std::move(changed));
}

void NamedSpace::close() noexcept {
  {
    const std::scoped_lock lock{closing_};
    closed_.store(true, std::memory_order_release);
  }
  space_->close_waits_of(this);
}

void NamedSpace::abandon() noexcept {
  close();
  leave();
}

}  // namespace tenure::local

#include "tenure/space.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "space/limit_change.hpp"
#include "space/local/local_space.hpp"
#include "space/local/named_space.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/sharded/sharded_space.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/error.hpp"

namespace tenure {

Space::~Space() { close(); }

Space& Space::operator=(Space&& other) noexcept {
  if (this != &other) {
    close();
    Locker::operator=(std::move(other));
  }
  return *this;
}

std::optional<Hold> Space::find(Token token, const Path& path, std::stop_token stop) const {
  if (stop.stop_requested()) return std::nullopt;
  detail::Backend* const backend = backend_.get();
  detail::SyncWaiter waiter;
  const std::optional<bool> granted = backend->attach(token, path, waiter);
  if (!granted.has_value()) return std::nullopt;
  if (!*granted) {
    const std::stop_callback on_stop{std::move(stop), [backend, &waiter]() noexcept {
                                       if (detail::cancel(backend, waiter)) waiter.set_cancelled();
                                     }};
    waiter.wait();
  }
  if (waiter.was_cancelled()) return std::nullopt;
  waiter.throw_unless_granted();
  return detail::HoldAccess::make(backend, waiter.grant);
}

std::size_t Space::set_limit(const Claim& limit) const {
  space::check_limit(limit);
  return backend_->set_limit(limit);
}

namespace {

constexpr auto abandon = [](detail::Backend* backend) { backend->abandon(); };

}  // namespace

Space open(std::string_view url) {
  if (is_store(url)) return open(store(url));
  if (sharded::is_sharded(url)) {
    return Space{sharded::ShardedSpace::open(sharded::read_sources(url), SessionOptions{})};
  }
  constexpr std::string_view local_scheme = "local:";
  if (!url.starts_with(local_scheme)) {
    throw Error(
        "'" + shown_url(url) +
        "' is not the URL of a space: use 'local:' (this process), 'sqlite:PATH' (this machine), "
        "'postgres://HOST/DATABASE', 'etcd://HOST:PORT,…/PREFIX' (many machines) or "
        "'sharded:FILE' (several of these)");
  }
  const std::string_view name = url.substr(local_scheme.size());
  if (name.empty()) return Space{std::shared_ptr<detail::Backend>{new local::LocalSpace, abandon}};
  return Space{std::shared_ptr<detail::Backend>{new local::NamedSpace{name}, abandon}};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the header has it.
Space open(std::shared_ptr<Store> store, SessionOptions options) {
  return Space{std::shared_ptr<detail::Backend>{new stored::StoredSpace(std::move(store), options),
                                                abandon}};
}

}  // namespace tenure

// ticket_watch.hpp: follows the tickets of a stored space, by watches of the store.
//
// Watches all entries of tickets, so a change anywhere in the space is a reason to look. Tickets
// also end without a write, and are removed by the first process that looks: so the sessions and
// deadlines of the tickets that were seen are watched as well.
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class StoredTicketWatch final : public detail::TicketWatch {
 public:
  using Inspect = std::function<std::vector<TicketInfo>()>;

  // It keeps the store, not the space, which `inspect` uses.
  StoredTicketWatch(std::shared_ptr<Store> store, Inspect inspect, std::function<void()> changed);
  StoredTicketWatch(const StoredTicketWatch&) = delete;
  StoredTicketWatch& operator=(const StoredTicketWatch&) = delete;
  ~StoredTicketWatch() override;

  [[nodiscard]] std::vector<TicketInfo> look() override;

 private:
  const std::shared_ptr<Store> store_;
  const Inspect inspect_;
  const std::function<void()> changed_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

}  // namespace tenure::stored

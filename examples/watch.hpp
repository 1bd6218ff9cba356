// watch.hpp: what the examples print of a space, and how they wait until somebody waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenure/tenure.hpp"

namespace example {

inline std::string claims_text(const tenure::Ticket& ticket) {
  std::string text;
  for (const tenure::Claim& claim : ticket.claims) {
    text += (text.empty() ? "" : " + ") + claim.text();
  }
  return text;
}

// One line a ticket: who, what, and whether it holds or waits, and for whom.
inline void print(std::string_view title, const tenure::Space& space) {
  const std::vector<tenure::TicketInfo> infos = space.inspect();
  const auto owner_of = [&infos](tenure::Token number) {
    return std::ranges::find(infos, number, [](const auto& i) { return i.ticket.number; })
        ->ticket.owner.text();
  };
  std::cout << title << '\n' << (infos.empty() ? "  nobody\n" : "");
  for (const tenure::TicketInfo& info : infos) {
    std::cout << "  " << std::left << std::setw(11) << info.ticket.owner.text() << std::setw(40)
              << claims_text(info.ticket) << (info.granted ? "holds" : "waits for");
    for (const tenure::Token blocker : info.blocked_by) std::cout << ' ' << owner_of(blocker);
    std::cout << '\n';
  }
}

inline std::size_t waiting(const tenure::Space& space) {
  return static_cast<std::size_t>(
      std::ranges::count(space.inspect(), false, [](const auto& info) { return info.granted; }));
}

// A thread that calls lock() is in line only a moment later; an example wants to see it there.
inline void until_waiting(const tenure::Space& space, std::size_t count) {
  while (waiting(space) != count) std::this_thread::yield();
}

}  // namespace example

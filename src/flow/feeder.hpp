// feeder.hpp: feeds a machine with a stored log.
//
// An entry of kind patch belongs to the code that runs after the entry before it. So the feeder
// keeps one entry back until it has seen the next one.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "flow/entry.hpp"

namespace tenure::flow {

class Feeder {
 public:
  explicit Feeder(detail::Machine& machine) noexcept : machine_(&machine) {}

  // Patches of the code that runs before the first entry: before Machine::begin(). `carried`: how
  // many signals of the run before are in front of them.
  void begin(std::span<const LogEntry> first, std::size_t carried) {
    for (const LogEntry& entry : first.subspan(std::min(carried, first.size()))) {
      if (entry.kind != EntryKind::patch) return;
      machine_->allow_patch(entry.name);
    }
  }
  // Throws ReplayMismatch.
  void add(LogEntry entry) {
    if (entry.kind == EntryKind::patch) {
      machine_->allow_patch(entry.name);
      return;
    }
    deliver();
    held_ = std::move(entry);
    holds_ = true;
  }
  // Delivers the last one. `live`: the code after it has not run in a turn that was committed.
  void end(bool live) {
    machine_->set_live(live);
    deliver();
    machine_->set_live(true);  // What comes now is new.
  }

 private:
  void deliver() {
    if (!std::exchange(holds_, false)) return;
    machine_->deliver(held_);
  }
  detail::Machine* machine_;
  LogEntry held_;  // Not an optional: g++ 12 warns of one that is read uninitialised.
  bool holds_ = false;
};

}  // namespace tenure::flow

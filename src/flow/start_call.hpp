// start_call.hpp: a start that is under way: what it writes, and what it has reserved.
//
// Thread safety: none; one job or callback has it at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flow/core.hpp"
#include "flow/rates.hpp"

namespace tenure::flow {

struct Core::StartCall {
  const detail::Definition* definition = nullptr;
  std::string id;
  Partition partition = 0;
  Record record;
  std::string places;  // Empty: no limit.
  enum class Mode : std::uint8_t {
    place,       // Takes a free place; nobody queues.
    join,        // Joins the queue.
    begin_queue  // The first in the queue: all places are taken.
  };
  Mode mode = Mode::place;
  std::uint32_t number = 0;  // Of its place or seat, which is reserved,
  std::string numbered;      // and what is numbered; empty: nothing is reserved.
  std::string rate;          // Empty: no limit.
  std::optional<RateTurn> rate_turn;
  Instant wanted;  // When it is to start.
  ReignRef reign;
  std::uint32_t tries = 0;
  Engine::Started started;
  StartExtra extra;
};

}  // namespace tenure::flow

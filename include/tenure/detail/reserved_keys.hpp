// reserved_keys.hpp: the first bytes of keys that Tenure uses itself. All below 0x20 are reserved.
//
//   byte       declared here as       used by
//   \x00                              nobody: a key that begins with it sorts before all others
//   \x01       exclusive_claims       src/space/stored: exclusive claims of tickets
//   \x02\x01   shared_claims          src/space/stored: shared claims without a limit
//   \x02\x02   group_claims           src/space/stored: claims in all other groups
//   \x03       sessions               every store: sessions; session_prefix in tenure/store.hpp
//   \x04       void_connections       src/store/postgres: connections whose writes are void
//   \x05       request_ids            src/space/stored: tickets by the id that their caller chose
//   \x06       owner_tickets          src/space/stored: tickets by their owner
//   \x07       shard_map              src/space/sharded: the map of a sharded space
//   \x08-\x0f                         free
//   \x10s      flow_slots             src/flow: values that many processes change
//   \x11       flow_workflows         src/flow: workflows, their logs, timers, messages, places
//   \x12-\x1f                         free
//
// The views of src/store/sqlite and src/store/postgres read \x01 to \x03 by their numbers. A prefix
// that is in use never changes its meaning: stored entries have it.
#pragma once

#include <string_view>

namespace tenure::reserved {

inline constexpr std::string_view exclusive_claims{"\x01", 1};
inline constexpr std::string_view shared_claims{"\x02\x01", 2};
inline constexpr std::string_view group_claims{"\x02\x02", 2};
inline constexpr std::string_view sessions{"\x03", 1};
inline constexpr std::string_view void_connections{"\x04", 1};
inline constexpr std::string_view request_ids{"\x05", 1};
inline constexpr std::string_view owner_tickets{"\x06", 1};
inline constexpr std::string_view shard_map{"\x07", 1};
inline constexpr std::string_view flow_slots{"\x10s", 2};
inline constexpr std::string_view flow_workflows{"\x11", 1};

// The first byte that is a program's own.
inline constexpr char first_free = '\x20';

}  // namespace tenure::reserved

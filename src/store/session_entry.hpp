// session_entry.hpp: the value of a session's entry, for people and tools: JSON with host, pid,
// boot, label and since (nanoseconds of the store's clock).
//
// No decision depends on it: alive() asks the kernel, a lease or the store, never the entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenure/store.hpp"

namespace tenure::stores {

// For this process, now. Bytes of the label or host that are not UTF-8 become %XX.
[[nodiscard]] std::string session_entry(std::string_view label, Instant since);

// The machine's boot id; empty if it can't be read.
[[nodiscard]] std::string boot_id();

// 16 hexadecimal digits.
[[nodiscard]] std::string session_id(std::uint64_t number);

}  // namespace tenure::stores

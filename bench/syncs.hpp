// syncs.hpp: counts how often this process has waited for the disk: fsync() and fdatasync().
#pragma once

#include <cstdint>

namespace tenure::bench {

[[nodiscard]] std::uint64_t syncs() noexcept;

}  // namespace tenure::bench

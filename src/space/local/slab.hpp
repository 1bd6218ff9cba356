// slab.hpp: memory for records of one size, given back to the system when it is no longer used.
//
//   SlabSource   one a space: slabs of 16 KiB, cut from chunks of 1 MiB. A free slab's pages go
//                back to the system at once (madvise), a free chunk's addresses too.
//   Pool         one a shard and size: records cut from slabs.
//
// malloc would do but for two things: a million records released in any order must be given back
// (a heap keeps what lies below one live block), and the steady state must not depend on what the
// rest of the program does with its heap. Slabs of their own mappings were tried: a few million
// records pass the system's limit on mappings.
//
// Thread safety: SlabSource has its own lock; a Pool is guarded by its shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/annotations.hpp"

namespace tenure::local {

inline constexpr std::size_t slab_bytes = std::size_t{16} * 1024;

class SlabSource {
 public:
  SlabSource() = default;
  SlabSource(const SlabSource&) = delete;
  SlabSource& operator=(const SlabSource&) = delete;
  ~SlabSource();

  [[nodiscard]] void* take();  // Aligned to its size. Throws std::bad_alloc.
  void give(void* slab) noexcept;

 private:
  struct Chunk {
    std::byte* base;
    std::uint64_t free = ~std::uint64_t{0};  // A bit a slab.
    Chunk* prev = nullptr;                   // Among those with room.
    Chunk* next = nullptr;
  };
  Chunk& add_chunk();
  void link(Chunk& chunk) noexcept;
  void unlink(Chunk& chunk) noexcept;

  std::mutex mutex_;  // Guards what follows.
  std::unordered_map<std::uintptr_t, Chunk> chunks_;
  Chunk* room_ = nullptr;
};

class Pool {
 public:
  // Records are aligned to 16 bytes.
  Pool(SlabSource& source, std::size_t record_bytes);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() = default;  // No record is out, and the source unmaps what is left.

  [[nodiscard]] void* take() {
    Slab* const slab = open_;
    if (slab == nullptr || slab->free == nullptr) [[unlikely]]
      return take_fresh();
    void* const record = slab->free;
    slab->free = *static_cast<void**>(record);
    ++used_;
    if (++slab->used == capacity_) [[unlikely]]
      unlink(slab);
    return record;
  }
  void give(void* record) noexcept {
    Slab* const slab = slab_of(record);
    *static_cast<void**>(record) = slab->free;
    slab->free = record;
    --used_;
    const std::uint32_t used = slab->used--;
    if (used == capacity_) [[unlikely]]
      link(slab);
    if (used == 1) [[unlikely]]
      give_slab(slab);
  }

  // Few of the records in the slabs are used: whoever caches some should let them go.
  [[nodiscard]] bool sparse() const noexcept {
    return slabs_ > 2 && used_ * 8 < slabs_ * capacity_;
  }

 private:
  struct Slab {
    Slab* prev;
    Slab* next;
    void* free;             // Returned records, linked through their first word.
    std::uint32_t used;     // Records out.
    std::uint32_t touched;  // Records ever cut, so that fresh pages stay untouched.
  };
  static_assert(sizeof(Slab) <= 48);
  static constexpr std::size_t header_bytes = 48;

  static Slab* slab_of(void* record) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a mask is what slabs are aligned for.
    return reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(record) & ~(slab_bytes - 1));
  }
  void link(Slab* slab) noexcept;
  void unlink(Slab* slab) noexcept;
  [[nodiscard]] void* take_fresh();
  void give_slab(Slab* slab) noexcept;

  SlabSource& source_;
  std::size_t record_bytes_;
  std::uint32_t capacity_;  // Records in a slab.
  Slab* open_ = nullptr;    // Slabs in use that have room; the first one serves.
  Slab* spare_ = nullptr;   // One empty slab, so that taking and giving in turn costs nothing.
  std::size_t slabs_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tenure::local

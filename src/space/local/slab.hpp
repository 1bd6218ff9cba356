// slab.hpp: memory for records of one size, returned to the system when it is no longer used.
//
//   SlabSource   one per space: slabs of 16 KiB, cut from chunks of 1 MiB. Returns the pages of a
//                free slab to the system at once (madvise), and the addresses of a free chunk.
//   Pool         one per shard and size: records cut from slabs.
//
// malloc would be enough except for two things: the memory of a million records released in any
// order must be returned (a heap keeps everything below one live block), and the steady state must
// not depend on how the rest of the program uses its heap. Slabs with their own mappings were
// tried: a few million records exceed the system's limit on mappings.
//
// Thread safety: SlabSource has its own lock; the lock of the shard guards a Pool.
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
    std::uint64_t free = ~std::uint64_t{0};  // One bit per slab.
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
  // Records are aligned to 16 bytes; to 64 if their size is a multiple of that.
  Pool(SlabSource& source, std::size_t record_bytes);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() = default;  // No record is in use, and the source unmaps what is left.

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

  // Few of the records in the slabs are used: a cache of records should shrink.
  [[nodiscard]] bool sparse() const noexcept {
    return slabs_ > 2 && used_ * 8 < slabs_ * capacity_;
  }

 private:
  struct Slab {
    Slab* prev;
    Slab* next;
    void* free;             // Returned records, linked through their first word.
    std::uint32_t used;     // Records in use.
    std::uint32_t touched;  // Records ever cut, so that fresh pages stay untouched.
  };
  static constexpr std::size_t header_bytes = 64;
  static_assert(sizeof(Slab) <= header_bytes);

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
  Slab* open_ = nullptr;    // Slabs in use that have room; the first one is used next.
  Slab* spare_ = nullptr;   // One empty slab, so that alternating take and return cost nothing.
  std::size_t slabs_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tenure::local

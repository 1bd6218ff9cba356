#include "space/local/slab.hpp"

#include <sys/mman.h>

#include <bit>
#include <cassert>
#include <new>
#include <utility>

namespace tenure::local {

namespace {
constexpr std::size_t chunk_slabs = 64;
constexpr std::size_t chunk_bytes = chunk_slabs * slab_bytes;
}  // namespace

SlabSource::~SlabSource() {
  for (const auto& [address, chunk] : chunks_) ::munmap(chunk.base, chunk_bytes);
}

void SlabSource::link(Chunk& chunk) noexcept {
  chunk.prev = nullptr;
  chunk.next = room_;
  if (room_ != nullptr) room_->prev = &chunk;
  room_ = &chunk;
}

void SlabSource::unlink(Chunk& chunk) noexcept {
  (chunk.prev != nullptr ? chunk.prev->next : room_) = chunk.next;
  if (chunk.next != nullptr) chunk.next->prev = chunk.prev;
}

SlabSource::Chunk& SlabSource::add_chunk() {
  // The kernel aligns to pages only: maps twice as much and unmaps the ends.
  void* const mapped = ::mmap(nullptr, 2 * chunk_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc{};
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t lead = (chunk_bytes - address % chunk_bytes) % chunk_bytes;
  if (lead != 0) ::munmap(begin, lead);
  if (lead != chunk_bytes) ::munmap(begin + lead + chunk_bytes, chunk_bytes - lead);
  Chunk& chunk = chunks_[address + lead];
  chunk.base = begin + lead;
  link(chunk);
  return chunk;
}

void* SlabSource::take() {
  const std::scoped_lock lock{mutex_};
  Chunk& chunk = room_ != nullptr ? *room_ : add_chunk();
  const auto index = static_cast<std::size_t>(std::countr_zero(chunk.free));
  chunk.free &= chunk.free - 1;
  if (chunk.free == 0) unlink(chunk);
  return chunk.base + (index * slab_bytes);
}

void SlabSource::give(void* slab) noexcept {
  const std::scoped_lock lock{mutex_};
  const auto address = reinterpret_cast<std::uintptr_t>(slab);
  const auto found = chunks_.find(address & ~(chunk_bytes - 1));
  assert(found != chunks_.end());
  Chunk& chunk = found->second;
  if (chunk.free == 0) link(chunk);
  chunk.free |= std::uint64_t{1} << (address % chunk_bytes / slab_bytes);
  if (chunk.free == ~std::uint64_t{0} && chunks_.size() > 1) {
    unlink(chunk);
    ::munmap(chunk.base, chunk_bytes);
    chunks_.erase(found);
  } else {
    ::madvise(slab, slab_bytes, MADV_DONTNEED);
  }
}

Pool::Pool(SlabSource& source, std::size_t record_bytes)
    : source_(source),
      record_bytes_((record_bytes + 15) / 16 * 16),
      capacity_(static_cast<std::uint32_t>((slab_bytes - header_bytes) / record_bytes_)) {
  assert(capacity_ > 0);
}

void Pool::link(Slab* slab) noexcept {
  slab->prev = nullptr;
  slab->next = open_;
  if (open_ != nullptr) open_->prev = slab;
  open_ = slab;
}

void Pool::unlink(Slab* slab) noexcept {
  (slab->prev != nullptr ? slab->prev->next : open_) = slab->next;
  if (slab->next != nullptr) slab->next->prev = slab->prev;
}

// A record that was never used from the current slab, or any record of the spare slab or a new one.
void* Pool::take_fresh() {
  if (open_ == nullptr) {
    if (spare_ == nullptr) {
      spare_ = new (source_.take()) Slab{};
      ++slabs_;
    }
    link(std::exchange(spare_, nullptr));
  }
  Slab* const slab = open_;
  void* record = slab->free;
  if (record != nullptr) {
    slab->free = *static_cast<void**>(record);
  } else {
    record = reinterpret_cast<std::byte*>(slab) + header_bytes + (slab->touched++ * record_bytes_);
  }
  ++used_;
  if (++slab->used == capacity_) unlink(slab);
  return record;
}

void Pool::give_slab(Slab* slab) noexcept {
  // The slab in use stays while it is the only one: a single record may come and go.
  if (slab == open_ && slab->next == nullptr) return;
  unlink(slab);
  if (spare_ == nullptr) {
    spare_ = slab;
  } else {
    source_.give(slab);
    --slabs_;
  }
}

}  // namespace tenure::local

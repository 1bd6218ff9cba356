// chunks.hpp: an array that grows without moving its elements, so that threads may use those that
// are there while one thread appends.
//
// Thread safety: one thread at a time appends; an element may be used by whoever was told its index
// by a thread that happened after its append.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tenure::pipeline {

template <class T, unsigned bits, std::size_t max_size>
class Chunks {
 public:
  static constexpr std::size_t chunk_size = std::size_t{1} << bits;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return max_size; }

  // Requires: size() < max_size.
  T& append() {
    if (chunks_.empty()) chunks_.resize(max_chunks);
    std::unique_ptr<Chunk>& chunk = chunks_[size_ >> bits];
    if (chunk == nullptr) chunk = std::make_unique<Chunk>();
    return (*chunk)[size_++ & (chunk_size - 1)];
  }
  [[nodiscard]] T& operator[](std::size_t index) noexcept {
    return (*chunks_[index >> bits])[index & (chunk_size - 1)];
  }
  [[nodiscard]] const T& operator[](std::size_t index) const noexcept {
    return (*chunks_[index >> bits])[index & (chunk_size - 1)];
  }

 private:
  static constexpr std::size_t max_chunks = (max_size + chunk_size - 1) >> bits;
  using Chunk = std::array<T, chunk_size>;

  std::vector<std::unique_ptr<Chunk>> chunks_;  // max_chunks of them, or none yet.
  std::size_t size_ = 0;
};

}  // namespace tenure::pipeline

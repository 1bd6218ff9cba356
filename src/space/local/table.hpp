// table.hpp: the nodes of a shard by path: a chained hash table that grows and shrinks, and whose
// bucket array is returned to the system if it was large.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "space/local/records.hpp"

namespace tenure::local {

class NodeTable {
 public:
  NodeTable() noexcept { at_ = small_.data(); }
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;
  ~NodeTable() = default;

  [[nodiscard]] Node* find(const Path& path) const noexcept {
    const auto hash = static_cast<std::uint32_t>(path.hash() >> 32U);
    for (Node* node = slot(hash); node != nullptr; node = node->bucket) {
      if (node->hash == hash && node->has_key(path)) return node;
    }
    return nullptr;
  }
  // The node with the same path as a node of another shard.
  [[nodiscard]] Node* find(const Node& other) const noexcept {
    for (Node* node = slot(other.hash); node != nullptr; node = node->bucket) {
      if (node->hash == other.hash && node->key() == other.key()) return node;
    }
    return nullptr;
  }

  void insert(Node& node) {
    if (count_ == size_) resize(size_ * 2);
    ++count_;
    link(node);
  }

  void erase(Node& node) noexcept {
    Node** at = &slot(node.hash);
    while (*at != &node) at = &(*at)->bucket;
    *at = node.bucket;
    --count_;
    if (size_ > min_buckets && count_ * 8 < size_) shrink();
  }

  template <class F>
  void for_each(F&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) {
      for (Node* node = at_[i]; node != nullptr;) {
        Node* const next = node->bucket;
        visit(*node);
        node = next;
      }
    }
  }

 private:
  static constexpr std::size_t min_buckets = 128;
  struct Unmap {
    std::size_t size;
    void operator()(Node** buckets) const noexcept {
      ::munmap(static_cast<void*>(buckets), size * sizeof(Node*));
    }
  };
  using Buckets = std::unique_ptr<Node*, Unmap>;

  static Buckets make(std::size_t size) {
    void* const mapped = ::mmap(nullptr, size * sizeof(Node*), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc{};
    return Buckets{static_cast<Node**>(mapped), Unmap{size}};
  }

  [[nodiscard]] Node*& slot(std::uint32_t hash) const noexcept { return at_[hash & (size_ - 1)]; }
  void link(Node& node) noexcept {
    Node*& head = slot(node.hash);
    node.bucket = head;
    head = &node;
  }

  void resize(std::size_t size) {
    Buckets large = size > min_buckets ? make(size) : Buckets{nullptr, Unmap{0}};
    Node** const old = at_;
    const std::size_t old_size = size_;
    at_ = large != nullptr ? large.get() : small_.data();
    std::ranges::fill_n(at_, large != nullptr ? 0 : min_buckets, nullptr);
    size_ = size;
    for (std::size_t i = 0; i < old_size; ++i) {
      for (Node* node = old[i]; node != nullptr;) {
        Node* const next = node->bucket;
        link(*node);
        node = next;
      }
    }
    large_ = std::move(large);
  }

  // If there is no memory to shrink the table, it stays as it is.
  void shrink() noexcept {
    try {
      resize(size_ / 2);
    } catch (const std::bad_alloc&) {
      return;
    }
  }

  Node** at_;
  std::size_t size_ = min_buckets;  // A power of two.
  std::size_t count_ = 0;
  Buckets large_{nullptr, Unmap{0}};
  // Not a mapping as well: those begin at the same place in a page, so that the buckets of all
  // shards would compete for a quarter of the first-level cache.
  std::array<Node*, min_buckets> small_{};
};

}  // namespace tenure::local

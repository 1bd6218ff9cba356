// table.hpp: the nodes of a shard by path: a chained hash table that grows and shrinks, and whose
// bucket array is returned to the system if it was large.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "space/local/records.hpp"

namespace tenure::local {

class NodeTable {
 public:
  NodeTable() : buckets_(make(min_buckets)) {}

  [[nodiscard]] Node* find(const Path& path) const noexcept {
    for (Node* node = slot(path.hash()); node != nullptr; node = node->bucket) {
      if (node->hash == path.hash() && node->has_key(path)) return node;
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
      for (Node* node = buckets_.get()[i]; node != nullptr;) {
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

  // The low bits chose the shard.
  [[nodiscard]] Node*& slot(std::uint64_t hash) const noexcept {
    return buckets_.get()[(hash >> 32U) & (size_ - 1)];
  }
  void link(Node& node) noexcept {
    Node*& head = slot(node.hash);
    node.bucket = head;
    head = &node;
  }

  void resize(std::size_t size) {
    Buckets old = make(size);
    const std::size_t old_size = size_;
    std::swap(old, buckets_);
    size_ = size;
    for (std::size_t i = 0; i < old_size; ++i) {
      for (Node* node = old.get()[i]; node != nullptr;) {
        Node* const next = node->bucket;
        link(*node);
        node = next;
      }
    }
  }

  // If there is no memory to shrink the table, it stays as it is.
  void shrink() noexcept {
    try {
      resize(size_ / 2);
    } catch (const std::bad_alloc&) {
      return;
    }
  }

  std::size_t size_ = min_buckets;  // A power of two.
  std::size_t count_ = 0;
  Buckets buckets_;
};

}  // namespace tenure::local

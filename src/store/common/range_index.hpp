// range_index.hpp: ranges of keys, each with an id; finds the ranges that contain a key.
//
// A treap ordered by the beginnings of ranges. Each node knows the largest end below it, so a
// search skips subtrees that end before the key. add() and remove() take O(log n), find() takes
// O(log n) for each range that it finds.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::stores {

class RangeIndex {
 public:
  using Id = std::uint64_t;

  RangeIndex();
  RangeIndex(const RangeIndex&) = delete;
  RangeIndex& operator=(const RangeIndex&) = delete;
  ~RangeIndex();

  // An empty range is ignored. The same range may be added again with the same id.
  void add(const Range& range, Id id);
  void remove(const Range& range, Id id);
  // Appends the id of each range that holds the key.
  void find(std::string_view key, std::vector<Id>& found) const;
  [[nodiscard]] bool empty() const noexcept { return root_ == nullptr; }
  void clear() noexcept;

 private:
  struct Node;
  using Tree = std::unique_ptr<Node>;

  static void split(Tree tree, const Node& at, Tree& below, Tree& rest);
  [[nodiscard]] static Tree merge(Tree left, Tree right);
  [[nodiscard]] static Tree without(Tree tree, const Node& gone);
  static void find_in(const Node* node, std::string_view key, std::vector<Id>& found);

  Tree root_;
};

}  // namespace tenure::stores

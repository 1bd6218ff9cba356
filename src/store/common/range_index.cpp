#include "store/common/range_index.hpp"

#include <functional>
#include <utility>

namespace tenure::stores {
namespace {

// splitmix64: the tree is balanced as if ranges were added in random order.
std::uint64_t scatter(std::uint64_t id, const std::string& from) noexcept {
  id += std::hash<std::string>{}(from) + 0x9e3779b97f4a7c15U;
  id = (id ^ id >> 30U) * 0xbf58476d1ce4e5b9U;
  id = (id ^ id >> 27U) * 0x94d049bb133111ebU;
  return id ^ id >> 31U;
}

// The empty end is behind all others.
bool ends_before(const std::string& end, const std::string& other) noexcept {
  return !end.empty() && (other.empty() || end < other);
}

bool ends_at_or_before(const std::string& end, std::string_view key) noexcept {
  return !end.empty() && end <= key;
}

}  // namespace

struct RangeIndex::Node {
  std::string from;
  std::string to;
  Id id = 0;
  std::uint64_t priority = 0;
  std::string last_end = to;  // The largest end of this node and all nodes below it.
  Tree left = nullptr;
  Tree right = nullptr;

  [[nodiscard]] bool comes_before(const Node& other) const noexcept {
    return from != other.from ? from < other.from : id < other.id;
  }
  [[nodiscard]] bool is(const Node& other) const noexcept {
    return id == other.id && from == other.from && to == other.to;
  }
  void update() {
    const std::string* last = &to;
    for (const Tree* const child : {&left, &right}) {
      if (*child && ends_before(*last, (*child)->last_end)) last = &(*child)->last_end;
    }
    last_end = *last;
  }
};

RangeIndex::RangeIndex() = default;
RangeIndex::~RangeIndex() = default;
void RangeIndex::clear() noexcept { root_.reset(); }

// The recursion is as deep as the tree: O(log n) with random priorities.
// NOLINTBEGIN(misc-no-recursion)
void RangeIndex::split(Tree tree, const Node& at, Tree& below, Tree& rest) {
  if (!tree) {
    below.reset();
    rest.reset();
  } else if (tree->comes_before(at)) {
    Tree right = std::move(tree->right);
    split(std::move(right), at, tree->right, rest);
    tree->update();
    below = std::move(tree);
  } else {
    Tree left = std::move(tree->left);
    split(std::move(left), at, below, tree->left);
    tree->update();
    rest = std::move(tree);
  }
}

RangeIndex::Tree RangeIndex::merge(Tree left, Tree right) {
  if (!left || !right) return left ? std::move(left) : std::move(right);
  if (left->priority > right->priority) {
    left->right = merge(std::move(left->right), std::move(right));
    left->update();
    return left;
  }
  right->left = merge(std::move(left), std::move(right->left));
  right->update();
  return right;
}

void RangeIndex::add(const Range& range, Id id) {
  if (!range.to.empty() && range.to <= range.from) return;
  auto node = std::make_unique<Node>(range.from, range.to, id, scatter(id, range.from));
  Tree below;
  Tree rest;
  split(std::move(root_), *node, below, rest);
  root_ = merge(merge(std::move(below), std::move(node)), std::move(rest));
}

// If several nodes have the same beginning and id, removes any one with the same end. Such nodes
// are adjacent in the order, on both sides of an equal one.
RangeIndex::Tree RangeIndex::without(Tree tree, const Node& gone) {
  if (!tree) return tree;
  if (tree->is(gone)) return merge(std::move(tree->left), std::move(tree->right));
  if (!gone.comes_before(*tree)) tree->right = without(std::move(tree->right), gone);
  if (!tree->comes_before(gone)) tree->left = without(std::move(tree->left), gone);
  tree->update();
  return tree;
}

void RangeIndex::remove(const Range& range, Id id) {
  root_ = without(std::move(root_), Node{.from = range.from, .to = range.to, .id = id});
}

void RangeIndex::find(std::string_view key, std::vector<Id>& found) const {
  find_in(root_.get(), key, found);
}

void RangeIndex::find_in(const Node* node, std::string_view key, std::vector<Id>& found) {
  for (; node != nullptr && !ends_at_or_before(node->last_end, key); node = node->right.get()) {
    find_in(node->left.get(), key, found);
    if (key < node->from) return;
    if (!ends_at_or_before(node->to, key)) found.push_back(node->id);
  }
}
// NOLINTEND(misc-no-recursion)

}  // namespace tenure::stores

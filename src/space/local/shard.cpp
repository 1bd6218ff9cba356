#include "space/local/shard.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace tenure::local {

Shard::Shard(SlabSource& source, Shard* shards, std::uint8_t index)
    : shards_(shards),
      index_(index),
      root_{},
      nodes_(source, sizeof(Node)),
      lines_(source, sizeof(Line)),
      entries_{Pool{source, sizeof(Entry) + (pool_links[0] * sizeof(Link))},
               Pool{source, sizeof(Entry) + (pool_links[1] * sizeof(Link))},
               Pool{source, sizeof(Entry) + (pool_links[2] * sizeof(Link))},
               Pool{source, sizeof(Entry) + (pool_links[3] * sizeof(Link))}} {
  lock.renew();
  thin_.make_list();
  root_.here.init(0);
  root_.shard = index;
  below(root_);
}

// The space frees no shard while a ticket is alive, so only idle nodes are left; pooled ones are
// freed with the source.
Shard::~Shard() {
  table_.for_each([](Node& node) {
    if (node.external) std::free(&node);
  });
}

Group& Shard::group(const Mode& mode) {
  if (mode.is_exclusive()) return exclusive_group;
  if (mode.kind() == Mode::Kind::shared) return shared_group;
  const auto [at, made] =
      groups_.try_emplace(std::string{mode.name()}, Group{.kind = mode.kind(), .name = {}});
  if (made) at->second.name = at->first;
  return at->second;
}

// ---- Nodes ----

Node& Shard::node(const Path& path) {
  Node* const found = find(path);
  return found != nullptr ? *found : make_path(path);
}

Node& Shard::make_path(const Path& path) {
  if (path.depth() == 1) return make_node(root_, path);
  // From the nearest existing ancestor downwards.
  std::size_t depth = path.depth() - 1;
  Node* at = find(path.prefix(depth));
  while (at == nullptr) at = find(path.prefix(--depth));
  while (++depth < path.depth()) at = &make_node(*at, path.prefix(depth));
  return make_node(*at, path);
}

Node& Shard::make_node(Node& parent, const Path& path) {
  below(parent);
  const std::string_view key = path.bytes();
  const bool external = key.size() > Node::pooled_key;
  const std::size_t aligned = (key.size() + alignof(Node) - 1) / alignof(Node) * alignof(Node);
  void* const memory =
      external ? std::aligned_alloc(alignof(Node), sizeof(Node) + aligned) : nodes_.take();
  if (memory == nullptr) throw std::bad_alloc{};
  auto* const node = new (memory) Node{};
  node->hash = static_cast<std::uint32_t>(path.hash() >> 32U);
  node->parent = &parent;
  node->key_bytes = static_cast<std::uint16_t>(key.size());
  node->depth = static_cast<std::uint8_t>(path.depth());
  node->here.init(node->depth);
  node->shard = index_;
  node->external = external;
  auto* const bytes = external ? reinterpret_cast<char*>(node + 1) : node->pooled.data();
  std::memcpy(bytes, key.data(), key.size());
  if (external) std::memset(bytes + key.size(), 0, aligned - key.size());
  if (node->depth == 1) {
    node->top = shard_of(path.route()) == index_ ? node : nullptr;
  } else {
    node->branch = node->depth == 2 ? &parent : parent.branch;
  }
  ++parent.uses;
  try {
    table_.insert(*node);
  } catch (...) {
    free_node(*node);
    throw;
  }
  enlist(*node);
  return *node;
}

void Shard::free_node(Node& node) noexcept {
  Node& parent = *node.parent;
  free_lines(node.here.more);
  free_lines(node.below);
  if (node.external) {
    std::free(&node);
  } else {
    nodes_.give(&node);
  }
  if (--parent.uses == 0 && !parent.listed && parent.depth > 0) append_idle(parent);
}

// A node stays listed while it is used again; trim() finds that out. So the hot path, a path that
// is locked and released repeatedly, never touches the list.
void Shard::enlist(Node& node) noexcept {
  append_idle(node);
  trim(node);
}

void Shard::append_idle(Node& node) noexcept {
  node.listed = true;
  node.idle = nullptr;
  *newest_idle_ = &node;
  newest_idle_ = &node.idle;
  ++idle_;
}

void Shard::trim(const Node& keep) noexcept {
  // While the pool is sparse, frees more nodes than are added, so that their slabs can be returned.
  constexpr int max_rounds = 4;
  for (int i = 0; i < max_rounds && oldest_idle_ != &keep; ++i) {
    if (idle_ <= max_idle && !nodes_.sparse()) return;
    Node& node = *oldest_idle_;
    oldest_idle_ = node.idle;
    if (oldest_idle_ == nullptr) newest_idle_ = &oldest_idle_;
    --idle_;
    node.listed = false;
    if (!node.in_use()) forget(node);
  }
}

// A copy of a name that home knows of needs home's lock too. Waiting for it here could deadlock; if
// it is not free, the node waits for the next round.
void Shard::forget(Node& node) noexcept {
  if (node.top != nullptr && node.top != &node) {
    Shard& home = shards_[node.top->shard];
    if (!home.lock.try_lock()) {
      append_idle(node);
      return;
    }
    put_to_sleep(node);
    home.lock.unlock();
  }
  if (node.replicas != 0) return;  // Listed again when the last copy becomes dormant.
  table_.erase(node);
  if (node.thin_listed) node.thin_link.remove();
  free_node(node);
}

void Shard::put_to_sleep(Node& copy) noexcept {
  Node& top = *std::exchange(copy.top, nullptr);
  Shard& home = shards_[top.shard];
  // Home assigns the next number of the name without looking here.
  home.counter = std::max(home.counter, counter);
  top.set_replicas(top.replicas & ~set_of(index_));
  if (top.replicas == 0 && top.uses == 0 && !top.listed) home.append_idle(top);
}

void Shard::wake(Node& copy, Node& top) noexcept {
  // A claim on the name that came while the copy was dormant may still wait.
  counter = std::max(counter, shards_[top.shard].counter);
  copy.top = &top;
  top.set_replicas(top.replicas | set_of(index_));
}

// ---- Lines ----

Line& Shard::below(Node& node) {
  if (node.below == nullptr) {
    auto* const line = static_cast<Line*>(lines_.take());
    line->init(node.depth);
    node.below = line;
  }
  return *node.below;
}

void Shard::free_lines(Line* first) noexcept {
  while (first != nullptr) lines_.give(std::exchange(first, first->more));
}

Line* Shard::existing(Line* first, const Group& group) noexcept {
  for (Line* line = first; line != nullptr; line = line->more) {
    if (!line->live.empty() && line->group == &group) return line;
  }
  return nullptr;
}

Line& Shard::line_of_several(Line& first, Group& group) {
  Line* unused = nullptr;
  Line* last = &first;
  for (Line* line = &first; line != nullptr; line = line->more) {
    if (line->live.empty()) {
      if (unused == nullptr) unused = line;
    } else if (line->group == &group) {
      return *line;
    }
    last = line;
  }
  if (unused == nullptr) {
    unused = static_cast<Line*>(lines_.take());
    unused->init(first.depth);
    last->more = unused;
  }
  return unused->reuse(group);
}

// ---- Entries ----

std::size_t Shard::thin_holds() const noexcept {
  std::size_t count = 0;
  for (ThinLink* link = thin_.next; link != &thin_; link = link->next) {
    const Node& node = Node::of_thin(*link);
    if (node.thin != 0 && node.thin_ticket == nullptr) ++count;
  }
  return count;
}

// In ticket order, so that each line is traversed at most once: the next link goes behind the last.
void Shard::thicken_all() {
  std::vector<Node*> held;
  for (ThinLink* link = thin_.next; link != &thin_; link = link->next) {
    Node& node = Node::of_thin(*link);
    if (node.thin != 0) held.push_back(&node);
  }
  std::ranges::sort(held, {}, [](const Node* node) { return node->thin; });
  ++batch_;
  for (Node* const node : held) thicken(*node);
  // The last link of an older batch may have been removed.
  ++batch_;
  for (ThinLink* link = thin_.next; link != &thin_; link = link->next) {
    Node::of_thin(*link).thin_listed = false;
  }
  thin_.make_list();
}

void Shard::thicken(Node& node) {
  Entry* const ticket = node.thin_ticket;
  const bool represents = ticket != nullptr && ticket->node == &node;
  Entry& entry =
      represents ? *ticket : make_entry(node, node.thin_shared ? shared_group : exclusive_group, 0);
  if (ticket == nullptr) {
    entry.was_thin = true;
    entry.state.store(State::granted, std::memory_order_relaxed);
    entry.since.store(0, std::memory_order_relaxed);
  } else {
    entry.first = ticket;
  }
  try {
    place(entry, node.thin);
  } catch (...) {
    if (!represents) free_entry(entry);
    throw;
  }
  if (ticket == nullptr) {  // From now on the hold counts, and keeps its node.
    ++tickets;
    ++node.uses;
  }
  Node* at = &node;
  for (std::size_t k = entry.depth + 1U; k-- > 0; at = at->parent) {
    Line* const line = existing(k == entry.depth ? &at->here : at->below, *entry.group);
    line->batch = batch_;
    line->last_of_batch = &entry.links()[k];
  }
  node.thin = 0;
  node.add_claims(-1);  // place() counted it again.
}

Entry* Shard::thickened(Node& node, std::uint64_t number) noexcept {
  for (Line* line = &node.here; line != nullptr; line = line->more) {
    for (Link* link = line->live.next; link->number <= number; link = link->next) {
      if (link->number == number) return &Entry::of_link(*link, node.depth);
    }
  }
  return nullptr;
}

void Shard::undo_place(Entry& entry, std::size_t from) noexcept {
  DueList nobody;  // The lock was held all the time.
  if (entry.limit != 0) leave_limit(*existing(&entry.node->here, *entry.group), entry, nobody);
  for (std::size_t k = from; k <= entry.depth; ++k) entry.links()[k].remove();
}

void Shard::call_turns(Line& line, DueList& due) noexcept {
  while (!line.turns.empty() && line.turns.next->number <= line.live.next->number) {
    auto& next = static_cast<Entry&>(*line.turns.next);
    next.Link::remove();
    due.push(*next.first);
  }
}

void Shard::move_behind(Entry& entry, std::uint64_t number) noexcept {
  for (std::size_t k = 0; k <= entry.depth; ++k) {
    Link& link = entry.links()[k];
    Link* list = link.next;
    while (list->number != no_number) list = list->next;
    link.remove();
    link.number = number;
    link.insert_before(*list);
  }
}

void Shard::enter_limit(Line& line, Entry& entry) noexcept {
  entry.within = entry.number < line.beyond->number;
  if (!entry.within) return;
  // Pushes out the last ones that do not fit: usually the entry itself. A downgraded ticket is
  // older than some that were within the limit. Those wait: it held the whole path.
  std::uint64_t inside = std::uint64_t{line.inside} + entry.weight;
  while (inside > line.limit) {
    line.beyond = line.beyond->prev;
    Entry& last = Entry::of_link(*line.beyond, entry.depth);
    last.within = false;
    inside -= last.weight;
  }
  line.inside = static_cast<std::uint32_t>(inside);
}

void Shard::leave_limit(Line& line, Entry& entry, DueList& due) noexcept {
  const Link& link = entry.links()[entry.depth];
  if (entry.within) {
    line.inside -= entry.weight;
  } else if (line.beyond == &link) {
    line.beyond = link.next;  // Smaller ones behind it may fit.
  } else {
    return;
  }
  admit(line, due);
}

// Those beyond the limit that fit now, in order.
void Shard::admit(Line& line, DueList& due) noexcept {
  while (line.beyond != &line.live) {
    Entry& next = Entry::of_link(*line.beyond, line.depth);
    if (next.weight > line.limit - line.inside) return;
    line.inside += next.weight;
    line.beyond = line.beyond->next;
    next.within = true;
    if (std::exchange(next.over, false)) due.push(*next.first);
  }
}

void Shard::change_limit(Line& line, std::uint32_t limit, DueList& due) noexcept {
  for (Link* link = line.live.next; link != &line.live; link = link->next) {
    Entry& entry = Entry::of_link(*link, line.depth);
    entry.limit = limit;
    entry.within = false;
  }
  line.limit = limit;
  line.inside = 0;
  line.beyond = line.live.next;
  admit(line, due);
}

}  // namespace tenure::local

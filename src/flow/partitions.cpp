#include "flow/partitions.hpp"

#include <exception>
#include <map>
#include <set>
#include <utility>

#include "tenure/codec.hpp"

namespace tenure::flow {
namespace {

constexpr std::chrono::milliseconds retry_pause{100};

}  // namespace

Partitions::Partitions(std::shared_ptr<Store> store, SessionOptions session, Listener listener)
    : store_(std::move(store)), session_(std::move(session)), listener_(std::move(listener)) {}

Partitions::~Partitions() = default;

Path Partitions::path(Partition partition) { return root() / Path::of(std::to_string(partition)); }

void Partitions::begin(std::uint32_t count) {
  count_ = count;
  const auto space = std::make_shared<const Space>(open(store_, session_));
  {
    const base::Mutex::Scoped lock{mutex_};
    slots_.resize(count);
    space_ = space;
  }
  std::vector<Partition> busy;
  for (std::uint32_t p = 0; p < count; ++p) {
    const auto partition = static_cast<Partition>(p);
    if (std::optional<Hold> hold = space->try_lock(path(partition))) {
      grant(partition, *std::move(hold));
    } else {
      busy.push_back(partition);
    }
  }
  Txn txn;
  txn.reads.push_back(Range::key(keys::bell()));
  watch_bell(store_->apply(txn).revision);
  for (const Partition partition : busy) wait_for(partition, shared_from_this());
  if (!busy.empty()) ring();
}

void Partitions::ring() {
  Txn txn;
  txn.writes.push_back(Write::put(keys::bell(), ""));
  static_cast<void>(store_->apply(txn));
}

void Partitions::ring_soon() {
  if (ringing_.exchange(true)) return;
  listener_.post_after(retry_pause, [self = shared_from_this()] {
    self->ringing_ = false;
    if (self->stop_.stop_requested()) return;
    try {
      self->ring();
    } catch (const std::exception&) {
      self->ring_soon();
    }
  });
}

void Partitions::watch_bell(Revision after) {
  WatchFor what;
  what.ranges.push_back(Range::key(keys::bell()));
  what.after = after;
  std::unique_ptr<Watch> watch = store_->watch(std::move(what), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->listener_.post([self] { self->rebalance(); });
    }
  });
  const base::Mutex::Scoped lock{mutex_};
  bell_.swap(watch);
}

// Gives up what is more than this engine's share and somebody else waits for.
void Partitions::rebalance() {
  if (stop_.stop_requested()) return;
  try {
    Txn txn;
    txn.reads.push_back(Range::key(keys::bell()));
    watch_bell(store_->apply(txn).revision);
    std::set<std::string> engines;
    std::map<Partition, std::vector<TicketInfo>> tickets;
    std::vector<TicketInfo> infos = space()->inspect(root());
    for (TicketInfo& info : infos) {
      engines.insert(info.session);
      const std::string text = info.ticket.claims.at(0).path.text();
      const std::string number = text.substr(text.rfind('/') + 1);
      tickets[Codec<std::uint16_t>::decode(number)].push_back(std::move(info));
    }
    std::vector<Partition> wanted;
    std::size_t mine = 0;
    for (const auto& [partition, queue] : tickets) {
      const ReignRef reign = owner(partition);
      if (!reign || queue.front().ticket.number.value != reign->number) continue;
      ++mine;
      if (queue.size() > 1) wanted.push_back(partition);
    }
    const std::size_t share =
        (count_ + engines.size() - 1) / std::max<std::size_t>(1, engines.size());
    for (; mine > share && !wanted.empty(); --mine) {
      give_up(wanted.back());
      wanted.pop_back();
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see below.
    // The store cannot be read: whoever waits rings again, or takes over when this engine ends.
  }
}

Partitions::Slot Partitions::take_slot(Partition partition) {
  Slot slot;
  const base::Mutex::Scoped lock{mutex_};
  if (partition < slots_.size()) std::swap(slot, slots_[partition]);
  return slot;
}

void Partitions::give_up(Partition partition) {
  Slot slot = take_slot(partition);
  if (!slot.reign) return;  // Lost meanwhile: that waits again.
  listener_.lost(partition);
  slot.on_lost.reset();
  slot.hold.release();
  wait_for(partition, shared_from_this());
}

std::shared_ptr<const Space> Partitions::space() const {
  const base::Mutex::Scoped lock{mutex_};
  return space_;
}

void Partitions::reopen(const std::shared_ptr<const Space>& lost) {
  {
    const base::Mutex::Scoped one_at_a_time{open_mutex_};
    if (stop_.stop_requested() || space() != lost) return;
    auto opened = std::make_shared<const Space>(open(store_, session_));
    const base::Mutex::Scoped lock{mutex_};
    space_.swap(opened);  // The old one goes with the last coroutine that uses it.
  }
  ring();
}

// `lost` is null where the space is as good as before.
void Partitions::wait_again(Partition partition, const std::shared_ptr<const Space>& lost) {
  listener_.post_after(retry_pause, [self = shared_from_this(), partition, lost] {
    if (self->stop_.stop_requested()) return;
    try {
      if (lost) self->reopen(lost);
    } catch (const std::exception&) {
      self->wait_again(partition, lost);
      return;
    }
    wait_for(partition, self);
  });
}

// Never throws, and ends only with a grant, by stop(), or by waiting again later.
// NOLINTNEXTLINE(readability-static-accessed-through-instance): the compiler does that.
base::Detached Partitions::wait_for(Partition partition, std::shared_ptr<Partitions> self) {
  std::shared_ptr<const Space> space;
  {
    const base::Mutex::Scoped lock{self->mutex_};
    if (self->stop_.stop_requested()) co_return;  // stop() does not wait for this one.
    ++self->waiting_;
    space = self->space_;
  }
  bool granted = false;
  bool is_lost = false;
  try {
    const Path wanted = path(partition);
    const std::stop_token stop = self->stop_.get_token();
    std::optional<Hold> hold = co_await space->async_lock(wanted, stop);
    if (hold) {
      granted = true;
      self->grant(partition, *std::move(hold));
    }
  } catch (const SessionLost&) {
    is_lost = true;
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it waits again, below.
  }
  if (!granted && !self->stop_.stop_requested()) {
    std::shared_ptr<const Space> lost;
    if (is_lost) lost = space;
    self->wait_again(partition, lost);
  }
  // This may be a thread of the space's, on which a space that was lost cannot end.
  if (space != self->space()) self->listener_.post([gone = std::move(space)] {});
  const base::Mutex::Scoped lock{self->mutex_};
  --self->waiting_;
  self->changed_.notify_all();
}

void Partitions::grant(Partition partition, Hold hold) {
  auto reign = std::make_shared<Reign>();
  reign->number = hold.token().value;
  try {
    reign->guards = hold.guard();
  } catch (const std::exception&) {  // Lost again already.
    wait_again(partition, space());
    return;
  }
  const std::stop_token lost = hold.lost();
  {
    const base::Mutex::Scoped lock{mutex_};
    slots_[partition].hold = std::move(hold);
    slots_[partition].reign = reign;
  }
  auto callback = std::make_unique<std::stop_callback<std::function<void()>>>(
      lost, [self = weak_from_this(), partition, number = reign->number] {
        if (const auto alive = self.lock()) alive->on_lost(partition, number);
      });
  {
    const base::Mutex::Scoped lock{mutex_};
    slots_[partition].on_lost.swap(callback);
  }
  listener_.taken(partition, reign);
}

// The hold is dropped, and another one asked for, on a thread that is not the space's own.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): one caller, which names them.
void Partitions::on_lost(Partition partition, std::uint64_t number) {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (partition >= slots_.size()) return;  // stop() has them.
    Slot& slot = slots_[partition];
    if (!slot.reign || slot.reign->number != number) return;
    slot.reign.reset();
  }
  listener_.lost(partition);
  listener_.post([self = shared_from_this(), partition] {
    if (self->stop_.stop_requested()) return;
    static_cast<void>(self->take_slot(partition));
    wait_for(partition, self);
    self->ring_soon();
  });
}

ReignRef Partitions::owner(Partition partition) const {
  const base::Mutex::Scoped lock{mutex_};
  return partition < slots_.size() ? slots_[partition].reign : nullptr;
}

bool Partitions::owns(Partition partition, const ReignRef& reign) const {
  const base::Mutex::Scoped lock{mutex_};
  return partition < slots_.size() && slots_[partition].reign == reign;
}

void Partitions::stop() {
  stop_.request_stop();
  std::unique_ptr<Watch> bell;
  std::vector<Slot> slots;
  {
    base::Mutex::Scoped lock{mutex_};
    while (waiting_ > 0) changed_.wait(lock);
    slots.swap(slots_);
    bell.swap(bell_);
  }
  bell.reset();
  slots.clear();  // Outside the lock: a callback may be running.
  std::shared_ptr<const Space> space;
  {
    const base::Mutex::Scoped lock{mutex_};
    space.swap(space_);
  }
}

}  // namespace tenure::flow

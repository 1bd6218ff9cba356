#include "bench/cluster/players.hpp"

#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench/names.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::cluster {
namespace {

class OurLock final : public stored::Lock {
 public:
  explicit OurLock(Space space) : space_(std::move(space)) {}
  void acquire() override { hold_ = space_.lock(book); }
  void release() override { hold_.release(); }

 private:
  Space space_;
  Hold hold_;
};

}  // namespace

Passed our_lock(const Opener& open, std::string name) {
  return {.make = [open, name = std::move(name)] { return std::make_unique<OurLock>(open(name)); },
          .dwell = std::chrono::milliseconds{3}};
}

Players::Players(std::array<std::size_t, 2> cores, std::vector<Passed> locks)
    : locks_(std::move(locks)) {
  for (std::uint32_t side = 0; side < 2; ++side) {
    children_.emplace_back(cores.at(side), [this, side](const stored::Line& line) {
      std::vector<std::unique_ptr<stored::Lock>> made(locks_.size());
      while (const auto command = line.next()) {
        const auto which = static_cast<std::size_t>(command->at(0));
        if (made[which] == nullptr) made[which] = locks_[which].make();
        line.send(play(*made[which], locks_[which].dwell, *board_, side,
                       static_cast<std::uint32_t>(command->at(1))));
      }
    });
  }
}

// The turns of one side, which alternate. Returns the time of each hand-off to it.
stored::Words Players::play(stored::Lock& lock, std::chrono::microseconds dwell, Board& board,
                            std::uint32_t side, std::uint32_t turns) {
  stored::Words times;
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    const bool first = side == 0 && turn == 1;
    const bool last = side == 1 && turn == turns;
    if (side == 1 && turn == 1) board.grants.wait_at_least(1);
    board.asking[side].set(turn);
    lock.acquire();
    const double granted = lock.acquired_at();
    if (!first) times.push_back(granted - board.released.load());
    if (!first && times.back() < 0) throw std::runtime_error("granted before it was released");
    const std::uint32_t mine = board.grants.raise();
    if (!last) {
      board.asking[1 - side].wait_at_least(turn + side);
      std::this_thread::sleep_for(dwell);
    }
    lock.release(board.released);
    if (!last) board.grants.wait_at_least(mine + 1);
  }
  return times;
}

Samples Players::round(std::size_t which, std::size_t turns) {
  for (stored::Signal* signal : {&board_->asking[0], &board_->asking[1], &board_->grants}) {
    signal->reset();
  }
  for (stored::Child& child : children_) {
    child.tell({static_cast<double>(which), static_cast<double>(turns)});
  }
  Samples times;
  for (stored::Child& child : children_) {
    const stored::Words of_side = child.hear();
    times.insert(times.end(), of_side.begin(), of_side.end());
  }
  return times;
}

}  // namespace tenure::bench::cluster

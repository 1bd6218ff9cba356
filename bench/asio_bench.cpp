// The hand-offs of handoff.cpp between asio::awaitable coroutines on one io_context. Rival: the
// same with 100 waiting; the plain awaiter is shown as well.
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "bench/ring.hpp"
#include "tenure/asio.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

namespace asio = boost::asio;

// Like Ring, but every hand-off goes through the io_context.
class AsioRing {
 public:
  AsioRing(const Space& space, Claim claim, std::size_t waiting)
      : space_(space), claim_(std::move(claim)), parked_(space.lock(claim_)) {
    for (std::size_t i = 0; i <= waiting; ++i) asio::co_spawn(io_, member(this), asio::detached);
    io_.poll();
  }
  AsioRing(const AsioRing&) = delete;
  AsioRing& operator=(const AsioRing&) = delete;
  ~AsioRing() {
    left_ = 0;
    parked_.release();
    run();
  }

  void turn(std::uint64_t handoffs) {
    left_ = handoffs;
    Hold(std::move(parked_)).release();
    run();
  }

 private:
  static asio::awaitable<void> member(AsioRing* ring) {
    do {
      Hold hold = co_await ring->space_.async_lock(ring->claim_, asio::use_awaitable);
      if (ring->left_ == 0) break;
      if (--ring->left_ == 0) {
        ring->parked_ = std::move(hold);
        ring->io_.stop();
      }
    } while (true);
  }
  void run() {
    io_.restart();
    io_.run();
  }

  const Space& space_;
  Claim claim_;
  asio::io_context io_{1};
  Hold parked_;
  std::uint64_t left_ = 0;
};

template <class SomeRing>
Race::Work turn(SomeRing& ring) {
  return [&ring](std::uint64_t handoffs) { ring.turn(handoffs); };
}

void ask_asio_handoff(Report& report) {
  pin_to_core(0);
  const std::size_t waiting = report.effort().of(8'000, 400);
  const Space space = open("local:");
  AsioRing few{space, book(1), 100};
  AsioRing many{space, book(2), waiting};
  Ring plain{space, book(3), waiting};

  Race race{report.effort()};
  const auto short_queue = race.add(turn(few));
  const auto long_queue = race.add(turn(many));
  const auto without_asio = race.add(turn(plain));
  race.run();
  report.compare("use_awaitable, 8,000 waiting", {"", race[long_queue]},
                 {"with 100 waiting", race[short_queue]}, at_most(1.5));
  report.compare("use_awaitable, 8,000 waiting", {"", race[long_queue]},
                 {"plain awaiter", race[without_asio]});
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  using tenure::bench::Question;
  static constexpr std::array questions = {
      Question{.name = "handoff",
               .text = "the same between awaitables of one io_context",
               .ask = &tenure::bench::ask_asio_handoff},
  };
  return tenure::bench::run_program(argc, argv, questions);
}

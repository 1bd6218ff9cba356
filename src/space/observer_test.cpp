// The tickets of a space as they come and go, in every kind of space.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");

class AnyObserver : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyObserver);

std::size_t holders(const std::vector<TicketInfo>& tickets) {
  return static_cast<std::size_t>(std::ranges::count(tickets, true, &TicketInfo::granted));
}
// Waits for a state; the states before it may be seen or not.
void see(Observer& observer, std::size_t granted, std::size_t waiting) {
  for (;;) {
    const std::vector<TicketInfo> tickets = observer.next();
    if (holders(tickets) == granted && tickets.size() == granted + waiting) return;
  }
}

TEST_P(AnyObserver, TellsWhoHoldsAndWhoWaits) {
  const Space space = open_new();
  Hold before = space.lock(book);
  Observer observer = space.observe();
  EXPECT_EQ(observer.next().size(), 1U);
  std::jthread waiter{[&] { const Hold hold = space.lock(book); }};
  see(observer, 1, 1);
  before.release();
  see(observer, 0, 0);
  waiter.join();
  {
    const Hold thin = space.lock(book);
    see(observer, 1, 0);
  }
  see(observer, 0, 0);
  std::optional<Hold> tried = space.try_lock({book, "film"});
  see(observer, 1, 0);
  tried->downgrade(book.shared());
  EXPECT_EQ(observer.next().at(0).ticket.claims, std::vector<Claim>{book.shared()});
  EXPECT_TRUE(space.evict_now(tried->token()));
  see(observer, 0, 0);
}

TEST_P(AnyObserver, LooksOnlyAtItsPath) {
  const Space space = open_new();
  Observer observer = space.observe("book/3");
  EXPECT_TRUE(observer.next().empty());
  const Hold beside = space.lock("book/4");
  const Hold at = space.lock("book/3");
  see(observer, 1, 0);
}

TEST_P(AnyObserver, SeesADeadlinePass) {
  const Space space = open_new();
  Hold hold = space.max_hold(1h).lock(book);
  Observer observer = space.observe();
  see(observer, 1, 0);
  (void)hold.renew(30ms);
  see(observer, 0, 0);
}

TEST_P(AnyObserver, StopsAndCloses) {
  std::optional<Space> space = open_new();
  Observer observer = space->observe();
  std::stop_source stop;
  EXPECT_TRUE(observer.next(stop.get_token()).has_value());
  std::jthread stopper{[&] { stop.request_stop(); }};
  EXPECT_FALSE(observer.next(stop.get_token()).has_value());
  stopper.join();
  std::jthread closer{[&] { space.reset(); }};
  EXPECT_THROW((void)observer.next(), Closed);
  closer.join();
  EXPECT_THROW((void)observer.next(), Closed);
}

base::Detached count_changes(Observer& observer, std::stop_token stop, std::atomic<int>& seen,
                             std::latch& done) {
  while (const auto tickets = co_await observer.async_next(stop)) {
    seen = static_cast<int>(tickets->size());
  }
  done.count_down();
}

TEST_P(AnyObserver, ACoroutineFollowsTheTickets) {
  const Space space = open_new();
  Observer observer = space.observe();
  std::stop_source stop;
  std::atomic<int> seen = -1;
  std::latch done{1};
  count_changes(observer, stop.get_token(), seen, done);
  kit::until([&] { return seen == 0; });
  {
    const Hold one = space.lock("a");
    kit::until([&] { return seen == 1; });
    const Hold two = space.lock("b");
    kit::until([&] { return seen == 2; });
  }
  kit::until([&] { return seen == 0; });
  stop.request_stop();
  done.wait();
}

TEST_P(AnyObserver, SpacesAreObservedWhileTheyAreUsed) {
  const Space space = open_new();
  std::atomic<bool> over = false;
  std::jthread user{[&] {
    for (int i = 0; i < rounds(2000); ++i) {
      const Hold hold = space.lock(Path::of("book", i % 3));
      if (i % 5 == 0) (void)space.try_lock("book");
    }
    over = true;
  }};
  while (!over) {
    Observer observer = space.observe();
    for (int i = 0; i < 3 && !over; ++i) {
      if (observer.next().size() > 1) ADD_FAILURE() << "more tickets than there can be";
      if (over) break;
      std::stop_source stop;
      stop.request_stop();
      (void)observer.next(stop.get_token());
      break;
    }
  }
  user.join();
  await_tickets(space, 0);
  EXPECT_TRUE(space.available("/"));
}

}  // namespace
}  // namespace tenure

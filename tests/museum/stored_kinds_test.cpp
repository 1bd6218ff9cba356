// Museum rows that local: has as well, in spaces over a store.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

class StoredKinds : public AnySpace {
 protected:
  // The space, and its store for observers.
  const std::shared_ptr<Store> files = store(new_url());
  std::optional<Space> space = open(files);
  const Space elsewhere = open(files);

  [[nodiscard]] std::size_t entries() const {
    Txn read;
    read.reads.push_back(Range::prefix(""));
    return files->apply(read).reads.front().size();
  }
};

const Path book = Path::of("book");

// First the waits end, then the holds, and the session with the last of them: until then no other
// process gets what is held.
TEST_P(StoredKinds, M24_AtShutdownHoldsOutliveTheSpaceAndTheSessionTheHolds) {
  const std::size_t two_sessions = entries();
  Hold first = space->lock(book);
  Hold second = space->lock(Path::of("film"));
  std::jthread waiter{[&] { EXPECT_THROW(static_cast<void>(space->lock(book)), Closed); }};
  until_waiting(elsewhere, 1);
  Space going = *std::exchange(space, std::nullopt);
  {
    const Space gone = std::move(going);
  }
  waiter.join();
  EXPECT_EQ(elsewhere.inspect().size(), 2U);
  EXPECT_FALSE(elsewhere.try_lock(book));
  EXPECT_FALSE(first.lost().stop_requested());
  EXPECT_TRUE(first.release());
  EXPECT_TRUE(elsewhere.try_lock(book));
  EXPECT_FALSE(elsewhere.try_lock(Path::of("film"))) << "the second is still held";
  EXPECT_TRUE(second.release());
  until([&] { return entries() + 1 == two_sessions; });
}

TEST_P(StoredKinds, S14_AnyBytesAreASegment) {
  std::vector<std::string> segments = {
      "constructor", "__proto__", "toString", "hasOwnProperty",     "", "..", "../..", "null",
      "a/b",         "%2F",       "\xff\xfe", std::string(300, 'x')};
  for (int byte = 0; byte < 256; ++byte) segments.emplace_back(1, static_cast<char>(byte));
  std::vector<Hold> holds;
  for (const std::string& segment : segments) {
    const Path path = Path::of("key", segment);
    auto hold = space->try_lock(path);
    ASSERT_TRUE(hold.has_value()) << path;
    EXPECT_FALSE(elsewhere.try_lock(path).has_value()) << path;
    holds.push_back(std::move(*hold));
  }
  const std::vector<TicketInfo> infos = elsewhere.inspect();
  ASSERT_EQ(infos.size(), segments.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    EXPECT_EQ(infos[i].ticket.claims.front().path, Path::of("key", segments[i]));
  }
  holds.clear();
  EXPECT_TRUE(space->try_lock(Path::of("key")).has_value());
}

TEST_P(StoredKinds, S15_ASecondReleaseIsNotSomebodyElses) {
  Hold first = space->lock(book);
  const Token old = first.token();
  EXPECT_TRUE(first.release());
  const Hold second = elsewhere.lock(book);
  EXPECT_FALSE(first.release());
  EXPECT_EQ(first.token(), Token{});
  first = Hold{};
  EXPECT_FALSE(space->evict(old)) << "the number is not used again";
  EXPECT_FALSE(space->evict(Token{}));
  EXPECT_FALSE(space->try_lock(book).has_value()) << "the second still holds";
}

TEST_P(StoredKinds, S15_ReleasingAfterAnEvictionLeavesTheNextHolderAlone) {
  Hold evicted = space->lock({book, Path::of("film")});
  EXPECT_TRUE(elsewhere.evict_now(evicted.token()));
  EXPECT_FALSE(elsewhere.evict_now(evicted.token())) << "once";
  const Hold next = elsewhere.lock({book, Path::of("film")});
  EXPECT_THROW(evicted.downgrade(book.shared()), Evicted);
  EXPECT_FALSE(evicted.renew());
  EXPECT_FALSE(evicted.release());
  EXPECT_FALSE(space->try_lock(book).has_value());
  EXPECT_FALSE(space->try_lock(Path::of("film")).has_value());
}

INSTANTIATE_TEST_SUITE_P(In, StoredKinds,
                         ::testing::Values(std::string_view{"memory"}, std::string_view{"sqlite"}),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace tenure::museum

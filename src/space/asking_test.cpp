// Strings as paths, and asking without taking, in every kind of space.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

const Path book = Path::of("book");

class AnyAsking : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyAsking);

TEST_P(AnyAsking, EveryCallTakesAStringWhereItTakesAPath) {
  const Space space = open_new();
  const std::string typed = "/deploy/prod/";
  const Hold hold = space.lock(typed);
  EXPECT_EQ(told(space), "1 holds deploy/prod");
  EXPECT_FALSE(space.try_lock("deploy/prod"));
  EXPECT_FALSE(space.try_lock(std::string_view{"deploy"}));
  EXPECT_EQ(space.inspect("deploy").size(), 1U);
  EXPECT_TRUE(space.inspect("build").empty());
  const Hold both = space.lock({"nightly backup", Path{"db"}.shared()});
  EXPECT_EQ(both.claims(),
            (std::vector<Claim>{Path::of("nightly backup"), Path::of("db").shared()}));
  EXPECT_EQ(space.with("a/b", [](const Hold& inner) { return inner.claims(); }),
            std::vector<Claim>{Path::of("a", "b")});
  EXPECT_EQ(space.as("job-7").lock("c").claims(), std::vector<Claim>{Path::of("c")});
}

TEST_P(AnyAsking, AStringThatIsNoPathIsRefusedAsOnTheCommandLine) {
  const Space space = open_new();
  EXPECT_EQ(kit::message_of<BadRequest>([&] { (void)space.lock("a//b"); }),
            "bad path \"a//b\" at byte 2: this segment is empty: remove a slash, or write \"\" "
            "for an empty segment");
  EXPECT_THROW((void)space.try_lock(""), BadRequest);
  EXPECT_THROW((void)space.inspect("50%"), BadRequest);
  EXPECT_TRUE(
      kit::contains(kit::message_of<BadRequest>([&] { (void)space.lock("etcd://me:secret@a/b"); }),
                    "'etcd://…' is a URL, not a path"));
  EXPECT_TRUE(space.inspect().empty());
}

TEST_P(AnyAsking, AvailableTellsWhatATryWouldGetAndTakesNothing) {
  const Space space = open_new();
  EXPECT_TRUE(space.available(book));
  EXPECT_TRUE(space.available({book, "film"}));
  EXPECT_TRUE(space.inspect().empty());

  const Hold reader = space.lock(book.shared());
  EXPECT_TRUE(space.available(book.shared()));
  EXPECT_FALSE(space.available(book));
  EXPECT_FALSE(space.available(book / Path::of(3)));
  EXPECT_FALSE(space.available({"film", book}));
  EXPECT_TRUE(space.available("film"));

  const Hold first = space.lock(Path::of("vendor").permits(2));
  EXPECT_TRUE(space.available(Path::of("vendor").permits(2)));
  const Hold second = space.lock(Path::of("vendor").permits(2));
  EXPECT_FALSE(space.available(Path::of("vendor").permits(2)));
  EXPECT_EQ(space.inspect().size(), 3U);
}

TEST_P(AnyAsking, AvailableRefusesWhatATryRefuses) {
  Space space = open_new();
  const Hold hold = space.lock(book.permits(2));
  EXPECT_THROW((void)space.available(book.permits(3)), LimitMismatch);
  EXPECT_THROW((void)space.available({book, book}), BadRequest);
  space.close();
  EXPECT_THROW((void)space.available(book), Closed);
}

TEST_P(AnyAsking, AvailableCountsThoseWhoWait) {
  const Space space = open_new();
  Hold reader = space.lock(book.shared());
  std::jthread writer{[&] { const Hold hold = space.lock(book); }};
  await_waiters(space, 1);
  EXPECT_FALSE(space.available(book.shared()));  // It would have to wait behind the writer.
  reader.release();
  writer.join();
  EXPECT_TRUE(space.available(book));
}

TEST_P(AnyAsking, AHoldKnowsItsClaims) {
  const Space space = open_new();
  EXPECT_TRUE(Hold{}.claims().empty());
  Hold hold = space.lock({book, "film"});
  EXPECT_EQ(hold.claims(), (std::vector<Claim>{book, Path::of("film")}));
  hold.downgrade(book.shared());
  EXPECT_EQ(hold.claims(), std::vector<Claim>{book.shared()});
  const Hold thin = space.lock("thin");
  EXPECT_EQ(thin.claims(), std::vector<Claim>{Path::of("thin")});
  hold.release();
  EXPECT_TRUE(hold.claims().empty());
}

TEST_P(AnyAsking, AMutexKnowsWhetherItIsLocked) {
  const Space space = open_new();
  Mutex mutex = space.mutex("book");
  EXPECT_FALSE(mutex.owns_lock());
  mutex.lock();
  EXPECT_TRUE(mutex.owns_lock());
  EXPECT_FALSE(mutex.owns_lock_shared());
  EXPECT_FALSE(space.mutex("book").owns_lock());  // Somebody else's.
  mutex.unlock();
  mutex.lock_shared();
  EXPECT_FALSE(mutex.owns_lock());
  EXPECT_TRUE(mutex.owns_lock_shared());
  mutex.unlock_shared();
  EXPECT_FALSE(mutex.owns_lock_shared());
}

}  // namespace
}  // namespace tenure

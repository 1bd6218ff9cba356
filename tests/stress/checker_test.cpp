// The checker against histories with a planted violation, and against histories that only look bad.
#include "tests/stress/checker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/stress/tree.hpp"

namespace tenure::stress {
namespace {

using Kinds = std::vector<std::string>;

// Logs of workers "one", "two", "three", …, in this order, and of the driver. All workers end
// normally unless the driver's log says something else.
Kinds found(const std::vector<std::string>& logs, const std::string& driver = "") {
  constexpr std::array names = {"one", "two", "three", "four"};
  History history;
  std::string ends = driver;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    std::istringstream log{logs[i]};
    history.add_worker(names.at(i), log);
    if (driver.find(std::string{"kill "} + names.at(i)) == std::string::npos) {
      ends += std::string{"0 end "} + names.at(i) + '\n';
    }
  }
  std::istringstream log{ends};
  history.add_driver(log);
  Kinds kinds;
  for (const Finding& finding : check(history)) kinds.push_back(name(finding.kind));
  return kinds;
}

// One hold: asked, granted, leaving, left; request 1 of thread 0.
struct Holding {
  std::string claims;
  int token = 0;
  int from = 0;
  int to = 0;
  int asked = -1;  // Just before the grant.
  int request = 1;
};
std::string log_of(const Holding& hold) {
  const std::string head = " 0 " + std::to_string(hold.request) + ' ';
  const auto time = [](int value) { return std::to_string(value); };
  return time(hold.asked < 0 ? hold.from - 1 : hold.asked) + head + "asked 0 0 lock " +
         hold.claims + '\n' + time(hold.from) + head + "granted " + time(hold.token) + " 0 -\n" +
         time(hold.to) + head + "leaving 0 0 release\n" + time(hold.to + 1) + head + "left 1 0 -\n";
}

TEST(StressChecker, AStoreThatFailedExplainsErrorsAfterThat) {
  const std::string log = "10 0 1 asked 0 1 lock a=exclusive\n20 0 1 refused 0 0 store\n";
  EXPECT_EQ(found({log}, "5 fault server\n"), Kinds{});
  EXPECT_EQ(found({log}, "25 fault server\n"), Kinds{"promise"});
  EXPECT_EQ(found({log}), Kinds{"promise"});
}

TEST(StressChecker, TakesALineApartAsItWasWritten) {
  const Event event{.time = 5,
                    .thread = 2,
                    .request = 7,
                    .kind = Event::Kind::asked,
                    .a = 1,
                    .b = 9,
                    .word = "try_lock",
                    .claims = {Path{}.exclusive(), Path::of("a", "b").permits(3),
                               Path::of("a").group("pull"), Path::of("c").permits(3).take(2)}};
  EXPECT_EQ(line(event),
            "5 2 7 asked 1 9 try_lock /=exclusive a/b=permits:3 a=pull c=permits:3:2\n");
  std::string text = line(event);
  text.pop_back();
  const auto parsed = parse_event(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(line(*parsed), line(event));
  EXPECT_EQ(parsed->claims, event.claims);
  for (const char* wrong : {"", "5", "x 2 7 asked 0 0 -", "5 2 7 eaten 0 0 -", "5 2 7 asked 0",
                            "5 2 7 asked 0 0 lock a", "5 2 7 asked 0 0 lock a=permits:0",
                            "5 2 7 asked 0 0 lock a=permits:2:3"}) {
    EXPECT_FALSE(parse_event(wrong).has_value()) << wrong;
  }
}

TEST(StressChecker, LetsGoodHistoriesPass) {
  EXPECT_EQ(found({log_of({"a=exclusive", 1, 10, 20}), log_of({"a=exclusive", 2, 21, 30})}),
            Kinds{});
  EXPECT_EQ(found({log_of({"a=shared", 1, 10, 20}), log_of({"a/b=shared", 2, 12, 30})}), Kinds{});
  EXPECT_EQ(found({log_of({"a=exclusive", 1, 10, 20}), log_of({"b=exclusive", 2, 12, 30})}),
            Kinds{});
  EXPECT_EQ(found({log_of({"a=permits:2", 1, 10, 20}), log_of({"a=permits:2", 2, 12, 30}),
                   log_of({"a=permits:2", 3, 20, 30})}),
            Kinds{});
  // Tickets that do not conflict may be granted in any order while both wait.
  EXPECT_EQ(found({log_of({"a=exclusive", 2, 10, 20, 1}), log_of({"b=exclusive", 1, 12, 30, 1})}),
            Kinds{});
}

TEST(StressChecker, FindsTwoThatHoldAtOnce) {
  const Kinds overlap = {"overlap"};
  EXPECT_EQ(found({log_of({"a=exclusive", 1, 10, 20}), log_of({"a=exclusive", 2, 19, 30})}),
            overlap);
  EXPECT_EQ(found({log_of({"a=shared", 1, 10, 20}), log_of({"a/b/c=exclusive", 2, 19, 30})}),
            overlap);
  EXPECT_EQ(found({log_of({"a/b=pull", 1, 10, 20}), log_of({"/=push", 2, 12, 15})}), overlap);
  EXPECT_EQ(found({log_of({"b=shared a=shared", 1, 10, 20}),
                   log_of({"c=exclusive a/d=permits:2", 2, 12, 15})}),
            overlap);
  // Every pair of three, not only neighbours in time.
  EXPECT_EQ(found({log_of({"a=exclusive", 1, 10, 50}), log_of({"b=exclusive", 2, 12, 14}),
                   log_of({"a=exclusive", 3, 40, 60})}),
            overlap);
}

TEST(StressChecker, FindsALimitThatIsExceeded) {
  EXPECT_EQ(found({log_of({"a=permits:2", 1, 10, 20}), log_of({"a=permits:2", 2, 12, 30}),
                   log_of({"a=permits:2", 3, 19, 30})}),
            Kinds{"limit"});
  EXPECT_EQ(found({log_of({"a=permits:2", 1, 10, 20}), log_of({"a=permits:3", 2, 12, 30})}),
            Kinds{"limit"});
  EXPECT_EQ(found({log_of({"a=permits:3:2", 1, 10, 20}), log_of({"a=permits:3:2", 2, 12, 30})}),
            Kinds{"limit"});
  EXPECT_EQ(found({log_of({"a=permits:3:2", 1, 10, 20}), log_of({"a=permits:3", 2, 12, 30})}),
            Kinds{});
  EXPECT_EQ(found({log_of({"a=permits:2", 1, 10, 20}), log_of({"a/b=permits:3", 2, 12, 30})}),
            Kinds{})
      << "limits of different paths do not add up";
}

TEST(StressChecker, FindsATokenThatWasGrantedTwice) {
  EXPECT_EQ(found({log_of({"a=exclusive", 7, 10, 20}), log_of({"b=exclusive", 7, 12, 30})}),
            Kinds{"token"});
  EXPECT_EQ(found({log_of({"a=exclusive", 0, 10, 20})}), Kinds{"token"}) << "none at all";
}

TEST(StressChecker, FindsALaterTicketThatWentFirst) {
  // Both waited from 1 on; they do not overlap, but the larger token was served first.
  EXPECT_EQ(found({log_of({"a=exclusive", 2, 10, 20, 1}), log_of({"a/b=shared", 1, 25, 30, 1})}),
            Kinds{"order"});
  EXPECT_EQ(found({log_of({"a/b/c=exclusive", 9, 10, 20, 1}), log_of({"x=shared", 3, 11, 12, 1}),
                   log_of({"x=shared /=exclusive", 4, 25, 30, 1})}),
            Kinds{"order"});
}

TEST(StressChecker, FindsATokenFromThePast) {
  // Asked after the other was granted: the token must be larger, whatever the claims of the root.
  EXPECT_EQ(found({log_of({"a/1=exclusive", 5, 10, 20}), log_of({"a/2=exclusive", 4, 15, 30, 14})}),
            Kinds{"order"});
  EXPECT_EQ(found({log_of({"a=shared", 5, 10, 20}), log_of({"/=shared", 4, 15, 30, 14})}),
            Kinds{"order"});
  EXPECT_EQ(
      found({log_of({"a=shared b=shared", 5, 10, 20}), log_of({"b/1=shared", 4, 15, 30, 14})}),
      Kinds{"order"});
  EXPECT_EQ(found({log_of({"a=exclusive", 5, 10, 20}), log_of({"b=exclusive", 4, 15, 30, 14})}),
            Kinds{})
      << "of another root";
  const std::string dead = "9 0 1 asked 0 0 lock a=exclusive\n10 0 1 granted 5 0 -\n";
  EXPECT_EQ(found({dead, log_of({"a=exclusive", 4, 90, 95, 80})}, "50 kill one\n"),
            (Kinds{"order", "order"}))
      << "a dead one's counts too";
}

TEST(StressChecker, EndsAHoldWithItsProcess) {
  const std::string dead = "9 0 1 asked 0 0 lock a=exclusive\n10 0 1 granted 1 0 -\n";
  const std::string next = log_of({"a=exclusive", 2, 50, 60});
  EXPECT_EQ(found({dead, next}, "50 kill one\n"), Kinds{});
  EXPECT_EQ(found({dead, next}, "51 kill one\n"), Kinds{"overlap"}) << "before the blow";
  EXPECT_EQ(found({dead, next}, "20 stop one\n40 continue one\n51 kill one\n"), Kinds{"overlap"})
      << "a stopped process keeps what it holds";
  EXPECT_EQ(found({dead, next}), (Kinds{"overlap", "promise"})) << "it never ended";
  // The grant came when the signal was on its way: the hold is certain at no time.
  EXPECT_EQ(found({dead, log_of({"a=exclusive", 2, 12, 60})}, "8 kill one\n"), Kinds{});
}

TEST(StressChecker, EndsAHoldAtItsDeadline) {
  const auto holder = [](const std::string& more) {
    return "9 0 1 asked 0 30 lock a=exclusive\n10 0 1 granted 1 0 -\n" + more +
           "90 0 1 leaving 0 0 release\n91 0 1 left 0 0 -\n";
  };
  EXPECT_EQ(found({holder("11 0 1 until 40 0 -\n"), log_of({"a=exclusive", 2, 40, 60})}), Kinds{});
  EXPECT_EQ(found({holder("11 0 1 until 40 0 -\n"), log_of({"a=exclusive", 2, 38, 60})}),
            Kinds{"overlap"});
  EXPECT_EQ(found({holder(""), log_of({"a=exclusive", 2, 39, 60})}), Kinds{})
      << "not before the question and max_hold";
  EXPECT_EQ(found({holder("11 0 1 until 40 0 -\n20 0 1 until 50 0 -\n"),
                   log_of({"a=exclusive", 2, 45, 60})}),
            Kinds{"overlap"})
      << "it was renewed";
}

TEST(StressChecker, EndsAHoldWhenItIsEvicted) {
  const std::string next = log_of({"a=exclusive", 2, 50, 60});
  const std::string holder =
      "9 0 1 asked 0 0 lock a=exclusive\n10 0 1 granted 1 0 -\n70 0 1 lost 0 0 -\n"
      "90 0 1 leaving 0 0 release\n91 0 1 left 0 0 -\n";
  EXPECT_EQ(found({holder, next, "49 2 1 evicting 1 0 -\n"}), Kinds{});
  EXPECT_EQ(found({holder, next, "49 2 1 evicting 1 0 -\n55 2 2 evicting 1 0 -\n"}), Kinds{});
  EXPECT_EQ(found({holder, next, "51 2 1 evicting 1 0 -\n"}), Kinds{"overlap"}) << "too early";
  const std::string waiter = "9 0 1 asked 0 0 lock b=exclusive\n20 0 1 refused 0 0 evicted\n";
  EXPECT_EQ(found({waiter, "15 2 1 evicting 7 0 -\n"}), Kinds{});
  EXPECT_EQ(found({waiter, "21 2 1 evicting 7 0 -\n"}), Kinds{"promise"}) << "by nobody";
}

TEST(StressChecker, KnowsWhatADowngradeGaveBack) {
  const std::string holder =
      "9 0 1 asked 0 0 lock a=exclusive\n10 0 1 granted 1 0 -\n30 0 1 narrowed 0 0 - a/b=shared\n"
      "90 0 1 leaving 0 0 release\n91 0 1 left 1 0 -\n";
  EXPECT_EQ(found({holder, log_of({"a/c=exclusive", 2, 30, 60})}), Kinds{});
  EXPECT_EQ(found({holder, log_of({"a/b=shared", 2, 30, 60})}), Kinds{});
  EXPECT_EQ(found({holder, log_of({"a/b=exclusive", 2, 30, 60})}), Kinds{"overlap"});
  EXPECT_EQ(found({holder, log_of({"a/c=exclusive", 2, 29, 60})}), Kinds{"overlap"});
}

TEST(StressChecker, FindsBrokenPromises) {
  const Kinds promise = {"promise"};
  const auto refused = [](const std::string& way, const std::string& why, int held = 0) {
    return found({"1 0 1 asked " + std::to_string(held) + " 0 " + way + " a=exclusive\n" +
                  "2 0 1 refused 0 0 " + why + '\n'});
  };
  EXPECT_EQ(refused("try_lock", "busy"), Kinds{});
  EXPECT_EQ(refused("lock", "gave-up"), promise);
  EXPECT_EQ(refused("lock-stop", "gave-up"), Kinds{});
  EXPECT_EQ(refused("lock", "deadlock"), promise) << "who holds nothing can't deadlock";
  EXPECT_EQ(refused("lock", "deadlock", 1), Kinds{});
  EXPECT_EQ(refused("lock", "mismatch"), promise);
  EXPECT_EQ(refused("lock", "disk_full"), promise);
  EXPECT_EQ(found({"1 0 1 asked 0 0 lock " + quarrel().text() + "=permits:2\n" +
                   "2 0 1 refused 0 0 mismatch\n"}),
            Kinds{});

  const std::string asked = "1 0 1 asked 0 0 lock a=exclusive\n2 0 1 granted 5 0 -\n";
  EXPECT_EQ(found({asked + "3 0 1 leaving 0 0 release\n4 0 1 left 0 0 -\n"}), promise)
      << "lost without a reason";
  EXPECT_EQ(found({asked + "3 0 1 lost 0 0 -\n4 0 1 leaving 0 0 drop\n5 0 1 left 1 0 -\n"}),
            promise);
  EXPECT_EQ(found({asked}), promise) << "it never ended";
}

TEST(StressChecker, FindsLogsThatMakeNoSense) {
  const Kinds promise = {"promise"};
  EXPECT_EQ(found({"1 0 1 asked 0 0 lock a=excl"}, "9 kill one\n"), Kinds{})
      << "the last line of one that was killed";
  EXPECT_EQ(found({"1 0 1 ask\n"}), promise);
  EXPECT_EQ(found({"1 0 1 granted 4 0 -\n"}), promise) << "nobody asked";
}

// Many holds that follow the rule, and a planted one between two of them.
TEST(StressChecker, FindsOneAmongMany) {
  std::string good;
  for (int i = 1; i <= 20'000; ++i) {
    good += log_of({"a/b=exclusive", 2 * i, i * 10, (i * 10) + 8, (i * 10) - 1, i});
  }
  EXPECT_EQ(found({good}), Kinds{});
  const auto with = [&good](int token) {
    return found({good, log_of({"a=shared", token, 77'778, 77'779, 1})});
  };
  EXPECT_EQ(with(15'555), Kinds{}) << "in time and in number between 7777 and 7778";
  EXPECT_EQ(with(15'557), (Kinds{"order", "order"}))
      << "before 7778, with a later number, and granted before that was asked for";
  EXPECT_EQ(with(15'553), Kinds{"order"}) << "after 7777, with an earlier one";
}

TEST(StressTree, HasTwoHundredKeysOfAllDepths) {
  std::array<std::size_t, 5> depths{};
  for (const Path& path : tree()) ++depths.at(path.depth());
  EXPECT_EQ(depths, (std::array<std::size_t, 5>{0, 8, 24, 56, 112}));
}

}  // namespace
}  // namespace tenure::stress

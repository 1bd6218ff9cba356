// Which keys are the same key, and what a key leaves behind.
#include <gtest/gtest.h>
#include <malloc.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kit/sanitized.hpp"
#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

const Name key{"museum-key"};
const Name common{"museum-common"};

constexpr std::uint32_t shards = 32;

// Keys that a table with 32 stripes would put on one stripe.
std::vector<Path> colliding(std::size_t count) {
  std::vector<Path> paths;
  for (int i = 0; paths.size() < count; ++i) {
    if (key(i).route() % shards == 0) paths.push_back(key(i));
  }
  return paths;
}

TEST(Museum, M34_KeysOfOneStripeAreStillDifferentKeys) {
  Space space = open("local:");
  std::vector<Hold> holds;
  for (const Path& path : colliding(200)) {
    auto hold = space.try_lock(path);
    ASSERT_TRUE(hold.has_value()) << path;
    EXPECT_FALSE(space.try_lock(path).has_value()) << path;
    holds.push_back(std::move(*hold));
  }
}

// Each thread nests keys of its own in its own order, all on one stripe; inside, the threads meet
// at common keys in one common order. Correct by the keys, but a striped table would deadlock.
TEST(Museum, M34_NestedLocksOfOneStripeDoNotDeadlock) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t nested = 8;
  Space space = open("local:");
  const std::vector<Path> paths = colliding(threads * nested);
  int turns = 0;  // Guarded by common(2).
  {
    std::vector<std::jthread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        for (std::size_t turn = 0; turn < 300; ++turn) {
          std::vector<Hold> holds;
          for (std::size_t i = 0; i < nested; ++i) {
            const std::size_t own = (t % 2 == 0 ? i : nested - 1 - i) * threads + t;
            holds.push_back(space.lock(paths[own]));
          }
          const Hold one = space.lock(common(1));
          const Hold two = space.lock(common(2));
          ++turns;
        }
      });
    }
  }
  EXPECT_EQ(turns, 1'200);
  EXPECT_TRUE(space.inspect().empty());
}

TEST(Museum, S03_ArgumentsThatLookAlikeWhenJoinedAreDifferentKeys) {
  Space space = open("local:");
  std::vector<Hold> holds;
  for (const Path& path : {key("a", "b"), key("a,b"), key("a/b"), key("a%2Fb"), key("a b"),
                           key("a\0b"), key("ab"), key("ab", ""), key("", "ab")}) {
    // Siblings and cousins, except key("ab"), which covers key("ab", "").
    auto hold = space.try_lock(path.shared());
    ASSERT_TRUE(hold.has_value()) << path;
    EXPECT_FALSE(space.try_lock(path).has_value()) << path;
    holds.push_back(std::move(*hold));
  }
}

Path path_of(const std::vector<std::string>& segments) {
  Path path;
  for (const std::string& segment : segments) path.append(segment);
  return path;
}

RC_GTEST_PROP(Museum, S03_TextIsOneToOneForAnyBytes, ()) {
  // Few different bytes, so that near misses are frequent.
  const auto byte = rc::gen::element('a', '/', ',', '%', '2', 'F', '\0', '\x80', '"');
  const auto segments = *rc::gen::container<std::vector<std::vector<std::string>>>(
      2, rc::gen::scale(0.1, rc::gen::container<std::vector<std::string>>(
                                 rc::gen::container<std::string>(byte))));
  const Path a = path_of(segments[0]);
  const Path b = path_of(segments[1]);
  RC_ASSERT((segments[0] == segments[1]) == (a == b));
  RC_ASSERT((a == b) == (a.text() == b.text()));
  RC_ASSERT(Path::parse(a.text()).value() == a);
}

TEST(Museum, S04_ExclusiveExcludesItself) {
  Space space = open("local:");
  {
    const Hold first = space.lock(key.exclusive());
    EXPECT_FALSE(space.try_lock(key.exclusive()).has_value());
    EXPECT_FALSE(space.try_lock(key).has_value());
    EXPECT_FALSE(space.try_lock(key.group("exclusive")).has_value());
  }
  int inside = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2'000; ++i) space.with(key.exclusive(), [&] { ++inside; });
      });
    }
  }
  EXPECT_EQ(inside, 8'000);
}

// Without the freed blocks that the C library keeps.
long resident_kilobytes() {
  ::malloc_trim(0);
  long size = 0;
  long resident = 0;
  std::ifstream{"/proc/self/statm"} >> size >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

// Short, deep and long paths, none seen before.
Path fresh_path(int i) {
  switch (i % 4) {
    case 0: return key(i);
    case 1: return key(i) / key(i + 1) / key(i + 2);
    case 2: return Path::of("museum-" + std::to_string(i));
    default: return key(std::string(100, 'x') + std::to_string(i), i);
  }
}

TEST(Museum, S12_PathsThatWereReleasedLeaveNoMemory) {
  constexpr int paths = kit::sanitized ? 10'000 : 100'000;
  constexpr long slack = 8L * 1024;  // Kilobytes. The paths alone have about 7,000.
  Space space = open("local:");
  for (int i = 0; i < 10'000; ++i) space.lock(fresh_path(i)).release();
  const long baseline = resident_kilobytes();

  for (int i = 0; i < paths; ++i) space.lock(fresh_path(i)).release();
  const long after_one_by_one = resident_kilobytes();

  std::vector<Hold> holds;
  holds.reserve(paths);
  for (int i = 0; i < paths; ++i) {
    // Not the paths that others cover.
    if (auto hold = space.try_lock(fresh_path(i))) holds.push_back(std::move(*hold));
  }
  const long with_all_held = resident_kilobytes();
  holds.clear();
  holds.shrink_to_fit();
  const long after_all_at_once = resident_kilobytes();
  EXPECT_TRUE(space.inspect().empty());

  if (kit::sanitized) return;  // The memory of a sanitizer hides that of the space.
  EXPECT_LT(after_one_by_one, baseline + slack);
  EXPECT_GT(with_all_held, baseline + 2 * slack) << "too few paths to tell";
  EXPECT_LT(after_all_at_once, baseline + slack);
}

TEST(Museum, S14_AnyBytesAreASegment) {
  std::vector<std::string> segments = {
      "constructor", "__proto__", "toString", "hasOwnProperty",     "", "..", "../..", "null",
      "a/b",         "%2F",       "\xff\xfe", std::string(300, 'x')};
  for (int byte = 0; byte < 256; ++byte) segments.emplace_back(1, static_cast<char>(byte));
  Space space = open("local:");
  std::vector<Hold> holds;
  for (const std::string& segment : segments) {
    const Path path = key(segment);
    auto hold = space.try_lock(path);
    ASSERT_TRUE(hold.has_value()) << path;
    EXPECT_FALSE(space.try_lock(path).has_value()) << path;
    EXPECT_EQ(Path::parse(path.text()), path);
    ASSERT_EQ(space.inspect(path).size(), 1U) << path;
    EXPECT_EQ(space.inspect(path).front().ticket.claims.front().path, path);
    holds.push_back(std::move(*hold));
  }
  holds.clear();
  EXPECT_TRUE(space.inspect().empty());
}

}  // namespace
}  // namespace tenure::museum

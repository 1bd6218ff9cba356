#include "space/sharded/shard_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "space/sharded/shard_list.hpp"
#include "tenure/detail/reserved_keys.hpp"
#include "tenure/error.hpp"
#include "tenure/memory_store.hpp"
#include "tests/kit/message.hpp"

namespace tenure::sharded {
namespace {

const std::vector<std::string> compass{"east", "north", "west"};

// Programs of all releases must agree, so these values never change.
TEST(ShardMap, HomesAreTheSameInEveryRelease) {
  std::string homes;
  for (const std::string root : {"book", "deploy", "db", "", "a", "b", "c", "nightly backup"}) {
    homes += home_of(root, compass) + " ";
  }
  EXPECT_EQ(homes, "east north west north north east north east ");
}

TEST(ShardMap, RootsAreSpreadEvenly) {
  std::map<std::string, int> count;
  for (int i = 0; i < 30'000; ++i) ++count[home_of("root-" + std::to_string(i), compass)];
  for (const std::string& name : compass) EXPECT_NEAR(count[name], 10'000, 500) << name;
}

TEST(ShardMap, AShardThatIsAddedTakesItsShareAndNothingElseMoves) {
  const std::vector<std::string> four{"east", "north", "south", "west"};
  int moved = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::string root = std::to_string(i);
    if (home_of(root, compass) == home_of(root, four)) continue;
    ++moved;
    ASSERT_EQ(home_of(root, four), "south");
  }
  EXPECT_NEAR(moved, 10'000, 500);
}

TEST(ShardMap, AnEntryIsReadAsItWasWritten) {
  const ShardMap map{.id = "1f", .version = 7, .names = compass, .next = {"east"}};
  const auto read = parse_map(map.text("north"));
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_EQ(read->map, map);
  EXPECT_EQ(read->self, "north");
}

TEST(ShardMap, AnEntryThatIsNoMapSaysWhy) {
  const auto why = [](std::string_view text) {
    const auto read = parse_map(text);
    return read.has_value() ? std::string{"a map"} : read.error();
  };
  EXPECT_NE(why("{"), "a map");
  EXPECT_NE(why("[]"), "a map");
  EXPECT_NE(why(R"({"format":1})"), "a map");
  const std::string head = R"({"format":1,"space":"i","shard":"a",)";
  EXPECT_EQ(why(head + R"("version":1,"shards":["a"]})"), "a map");
  EXPECT_EQ(why(head + R"("version":0,"shards":["a"]})"), "its version is 0");
  EXPECT_EQ(why(head + R"("version":1,"shards":[]})"), "it lists no shards");
  EXPECT_EQ(why(head + R"("version":1,"shards":["b","a"]})"), "the names are not sorted");
  EXPECT_EQ(why(head + R"("version":1,"shards":["a","a"]})"), "a name is there twice");
  EXPECT_NE(why(head + R"("version":1,"shards":["a b"]})").find("'a%20b' is not the name"),
            std::string::npos);
  EXPECT_NE(why(R"({"format":2,"space":"i","shard":"a","version":1,"shards":["a"]})")
                .find("a newer version of Tenure"),
            std::string::npos);
}

TEST(ShardMap, TheStoreOfAnotherShardIsRefused) {
  MemoryStore store;
  EXPECT_EQ(read_map(store, "west").map.version, 0U);
  const ShardMap map{.id = "1", .version = 1, .names = compass, .next = {}};
  Txn txn;
  txn.writes.push_back(Write::put(std::string{reserved::shard_map}, map.text("east")));
  store.apply(txn);
  EXPECT_EQ(read_map(store, "east").map, map);
  EXPECT_EQ(kit::message_of<Error>([&] { static_cast<void>(read_map(store, "west")); }),
            "the store of shard 'west' is that of shard 'east': correct the URL in the list of "
            "shards");
}

std::string list_error(std::string_view text) {
  return kit::message_of<Error>([&] { static_cast<void>(parse_list(text)); });
}

TEST(ShardList, HasANameAndAUrlPerLine) {
  const std::vector<ShardAddress> expected{{.name = "east", .url = "etcd://a,b/x"},
                                           {.name = "w-1", .url = "sqlite:my file.db"}};
  EXPECT_EQ(parse_list("# shards\n\n  east\tetcd://a,b/x \r\nw-1   sqlite:my file.db"), expected);
}

TEST(ShardList, SaysWhichLineIsWrongAndNoPassword) {
  EXPECT_EQ(list_error("# nothing\n"), "it lists no shards: write a name and a URL in each line");
  EXPECT_EQ(list_error("a sqlite:x\na sqlite:y"), "line 2: the name 'a' was used before");
  EXPECT_EQ(list_error("\nwest"), "line 2: there is no URL behind the name");
  EXPECT_EQ(
      list_error("postgres://me:secret@db/x"),
      "line 1: it does not begin with the name of a shard: letters, digits, '.', '_' and '-'");
  EXPECT_EQ(list_error("a local:").substr(0, 46), "line 1: 'local:' is not the URL of a store: us");
  EXPECT_EQ(list_error("a postgre://me:secret@db/x").find("secret"), std::string::npos);
  EXPECT_EQ(list_error("a sharded:other").substr(0, 53),
            "line 1: 'sharded:other' is not the URL of a store: us");
  EXPECT_NE(list_error(std::string(max_list_bytes + 1, '#')).find("use at most"),
            std::string::npos);
  std::string many;
  for (std::size_t i = 0; i <= max_shards; ++i) many += "s" + std::to_string(i) + " memory:\n";
  EXPECT_EQ(list_error(many), "line 257: there are more than 256 shards");
}

TEST(ShardList, AFileThatIsNotThereIsNamed) {
  const auto error = [](std::string_view url) {
    return kit::message_of<Error>([&] { static_cast<void>(read_sources(url)); });
  };
  EXPECT_EQ(error("sharded:/nowhere/list"),
            "'sharded:/nowhere/list': the list of shards '/nowhere/list' cannot be read: No such "
            "file or directory");
  EXPECT_EQ(error("sharded:"), "'sharded:' needs a file that lists the shards: use 'sharded:FILE'");
  EXPECT_EQ(error("sqlite:x"), "'sqlite:x' is not the URL of a sharded space: use 'sharded:FILE'");
}

}  // namespace
}  // namespace tenure::sharded

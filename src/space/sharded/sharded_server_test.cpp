// A sharded space over a PostgreSQL server and an etcd server, one of which is stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "space/sharded/shard_map.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::sharded {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> servers{"etcd", "pg"};

std::string root_at(const std::string& name) {
  for (int i = 0;; ++i) {
    std::string root = "r" + std::to_string(i);
    if (home_of(root, servers) == name) return root;
  }
}

class ShardedServers : public ::testing::Test {
 protected:
  ShardedServers() {
    list("etcd", etcd_.url("locks") + "?timeout=1s");
    list("pg", postgres_.url_of("locks"));
  }
  void list(const std::string& name, const std::string& store) {
    std::ofstream{directory_ / "shards", std::ios::app} << name << " " << store << "\n";
  }
  [[nodiscard]] std::string url() const { return "sharded:" + (directory_ / "shards").string(); }

  kit::TemporaryDirectory directory_;
  kit::Etcd etcd_;
  kit::Postgres postgres_;
};

TEST_F(ShardedServers, AServerThatIsStoppedAffectsItsOwnRootsOnly) {
  set_shards(url(), servers);
  const std::string in_etcd = root_at("etcd");
  const std::string in_pg = root_at("pg");
  std::optional<Hold> before;
  const Space space = open(url());
  before = space.lock(in_etcd);
  Hold other = space.lock(in_pg);
  EXPECT_GT(before->token(), Token{});
  EXPECT_EQ(space.inspect().size(), 2U);
  EXPECT_TRUE(before->release());

  etcd_.kill();
  EXPECT_THROW((void)space.try_lock(in_etcd), StoreError);
  EXPECT_TRUE(other.release());
  EXPECT_TRUE(space.try_lock_for(in_pg, 1min).has_value());
  const Space opened_later = open(url());
  const Hold held = opened_later.lock(in_pg);
  EXPECT_THROW((void)opened_later.lock(in_etcd), StoreError);
  const std::vector<TicketInfo> listed = opened_later.inspect();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_TRUE(kit::contains(listed[0].fault, "shard 'etcd' (etcd://")) << listed[0].fault;
  EXPECT_EQ(listed[1].ticket.number, held.token());
  EXPECT_THROW(set_shards(url(), {"pg"}), StoreError);

  etcd_.restart();
  std::optional<Hold> again;
  kit::until([&] {
    try {
      again = opened_later.try_lock(in_etcd);
    } catch (const Error&) {  // Until the server answers.
    }
    return again.has_value();
  });
}

// A root moves between servers; a process that has the old map follows it, however it asks.
TEST_F(ShardedServers, AChangeOfTheMapIsFollowedByProcessesThatRun) {
  set_shards(url(), {"pg"});
  // A number begins with the second in which its store was made, or up to two later ones.
  const auto made = std::chrono::system_clock::now();
  kit::until([&] { return std::chrono::system_clock::now() > made + 4s; });
  list("pg2", postgres_.url_of("later"));
  const Space old = open(url());
  const std::string root = [&] {
    for (int i = 0;; ++i) {
      std::string one = "r" + std::to_string(i);
      if (home_of(one, {"pg", "pg2"}) == "pg2") return one;
    }
  }();
  const Token before = old.lock(root).token();
  set_shards(url(), {"pg", "pg2"}, {.wait = 1min});
  const Space fresh = open(url());
  {
    const Hold hold = fresh.lock(root);
    EXPECT_GT(hold.token(), before);
    EXPECT_FALSE(old.try_lock(root));
  }
  // Made by a thread of the old home's space: it may have to be repeated once.
  std::optional<Hold> hold;
  kit::until([&] {
    try {
      hold = old.try_lock_for(root, 1min);
    } catch (const ShardsChanged&) {
    }
    return hold.has_value();
  });
  EXPECT_EQ(shard_of(url(), Path::of(root)), "pg2");
}

}  // namespace
}  // namespace tenure::sharded

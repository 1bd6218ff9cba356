// Ranges of an answer as entries, and further pages: no server.
#include "store/etcd/range_reader.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rpc.pb.h"
#include "store/conformance.hpp"

namespace tenure::etcd {
namespace {

using conformance::txn;

class EtcdRangeReader : public ::testing::Test {
 protected:
  static constexpr std::int64_t by_etcd = 50;

  // An etcd with these keys, that answers `most` of them at a time.
  void answer(const pb::RangeRequest& request, pb::RangeResponse& response, std::size_t most) {
    std::vector<std::string> found;
    for (const std::string& key : keys) {
      const std::string stored = layout.key(key);
      if (stored >= request.key() && stored < request.range_end()) found.push_back(stored);
    }
    if (request.sort_order() == pb::RangeRequest::DESCEND) std::ranges::reverse(found);
    const std::size_t limit =
        request.limit() == 0 ? most : std::min(most, static_cast<std::size_t>(request.limit()));
    for (std::size_t i = 0; i < std::min(limit, found.size()); ++i) {
      pb::KeyValue& kv = *response.add_kvs();
      kv.set_key(found[i]);
      kv.set_value(entry_value({.changed = Revision{2}, .created = Revision{1}, .bytes = "v"}));
      kv.set_mod_revision(9);
    }
    response.set_more(limit < found.size());
  }
  // The keys that one read of `range` finds, and how many requests it takes beside the first.
  [[nodiscard]] std::vector<std::string> read(const Range& range, Revision revision = {}) {
    const Txn reading = txn({}, {}, {range});
    const Plan plan{layout, caches, reading};
    pb::TxnRequest request;
    plan.add_reads(*request.mutable_success());
    pb::RangeResponse first;
    answer(request.success(0).request_range(), first, page);
    Answer all;
    all.by_etcd = by_etcd;
    all.reads.push_back(&first);
    fetches = 0;
    RangeReader reader{plan, caches.keys,
                       [this](const pb::RangeRequest& more, pb::RangeResponse& response) {
                         EXPECT_EQ(more.revision(), by_etcd) << "one snapshot";
                         ++fetches;
                         if (compacted) return false;
                         answer(more, response, page);
                         return true;
                       }};
    const auto entries = reader.read(all, revision);
    std::vector<std::string> names;
    if (!entries) return {"compacted"};
    for (const Entry& entry : entries->at(0)) names.push_back(entry.key);
    return names;
  }

  const Layout layout{"p"};
  Caches caches;
  std::vector<std::string> keys;  // Sorted.
  std::size_t page = 2;
  int fetches = 0;
  bool compacted = false;
};

TEST_F(EtcdRangeReader, ReadsAllPages) {
  keys = {"a1", "a2", "a3", "a4", "a5", "b"};
  EXPECT_EQ(read(Range::prefix("a")), (std::vector<std::string>{"a1", "a2", "a3", "a4", "a5"}));
  EXPECT_EQ(fetches, 2);
  EXPECT_EQ(read(Range::prefix("a").last(3)), (std::vector<std::string>{"a5", "a4", "a3"}));
}

TEST_F(EtcdRangeReader, StopsAtTheLimitAndSkips) {
  keys = {"a1", "a2", "a3", "a4", "a5"};
  Range range = Range::prefix("a").first(2);
  EXPECT_EQ(read(range), (std::vector<std::string>{"a1", "a2"}));
  EXPECT_EQ(fetches, 0);
  range.skip = 2;
  EXPECT_EQ(read(range), (std::vector<std::string>{"a3", "a4"}));
}

TEST_F(EtcdRangeReader, PassesOverStampsThatDoNotCount) {
  keys = {"a" + stamp(Revision{3}), "a" + stamp(Revision{7}), "a" + stamp(Revision{8})};
  Range range = Range::prefix("a").last();
  range.before = this_apply;
  EXPECT_EQ(read(range, Revision{7}), std::vector<std::string>{keys[0]});
  EXPECT_EQ(read(range), std::vector<std::string>{keys[2]}) << "it wrote nothing: all count";
}

// etcd fetches all of a range that it reads backwards, so the read begins at a known key.
TEST_F(EtcdRangeReader, LooksBeforeItsHintOnlyIfItFindsNothingBehind) {
  keys = {"a1", "a2", "a3"};
  caches.keys.put("a2", {.mod_revision = 9, .created = Revision{1}});
  EXPECT_EQ(read(Range::prefix("a").last()), std::vector<std::string>{"a3"});
  EXPECT_EQ(fetches, 0);
  keys = {"a1"};
  EXPECT_EQ(read(Range::prefix("a").last()), std::vector<std::string>{"a1"});
  EXPECT_EQ(fetches, 1);
  EXPECT_EQ(caches.keys.last_in(Range::prefix("a")), "a1") << "the others are gone";
}

TEST_F(EtcdRangeReader, SaysThatTheSnapshotIsGone) {
  keys = {"a1", "a2", "a3"};
  compacted = true;
  EXPECT_EQ(read(Range::prefix("a")), std::vector<std::string>{"compacted"});
}

}  // namespace
}  // namespace tenure::etcd

#include "store/etcd/etcd_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "store/conformance.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::new_prefix;

conformance::StoreUnderTest make_etcd() {
  const std::string url = Etcd::instance().url(new_prefix());
  return {
      .open = [url] { return open_etcd_alone(url); },
      // Ends the lease.
      .kill =
          [url](Session& session) { Client{parse_address(url)}.revoke(*lease_of(session.id())); }};
}

std::string last_of(Store& store, const Range& range) {
  const Outcome outcome = store.apply({.guards = {}, .writes = {}, .reads = {range.last()}});
  return outcome.reads[0].empty() ? "none" : outcome.reads[0][0].key;
}

// Programs of another layout version must not read what they would misunderstand; version 1 had no
// version.
TEST(EtcdStore, RefusesAnotherVersionOfTheLayout) {
  const std::string head = head_value({.revision = Revision{7}, .time = {}});
  EXPECT_EQ(parse_head(head).revision, Revision{7});
  const std::string first = head.substr(0, head.size() - 1);
  for (const auto& [value, said] :
       {std::pair{first, "layout version 1,"}, std::pair{first + '\x02', "layout version 2,"},
        std::pair{first + '\x07', "layout version 7,"},
        std::pair{head + "x", "not written by Tenure"}}) {
    try {
      static_cast<void>(parse_head(value));
      ADD_FAILURE() << said;
    } catch (const StoreError& error) {
      EXPECT_NE(std::string{error.what()}.find(said), std::string::npos) << error.what();
    }
  }
}

// A read of the last entry begins at the last key that the process knows, which may be gone.
TEST(EtcdStore, FindsTheLastOfARangeWhateverItRemembers) {
  const std::string url = Etcd::instance().url(new_prefix());
  const auto one = open_etcd_alone(url);
  const auto other = open_etcd_alone(url);
  const Range range = Range::prefix("line/");
  const auto write = [&](Store& store, Write what) {
    static_cast<void>(
        store.apply({.guards = {}, .writes = {std::move(what)}, .reads = {range.last()}}));
  };
  for (const char* const key : {"line/1", "line/2", "line/3", "line/5"}) {
    write(*one, Write::put(key, ""));
  }
  EXPECT_EQ(last_of(*one, range), "line/5");
  write(*other, Write::remove("line/5"));
  EXPECT_EQ(last_of(*one, range), "line/3");
  write(*other, Write::put("line/4", ""));
  EXPECT_EQ(last_of(*one, range), "line/4");
  for (const char* const key : {"line/2", "line/3", "line/4"}) {
    write(*other, Write::remove(key));
  }
  EXPECT_EQ(last_of(*one, range), "line/1");
  write(*other, Write::remove("line/1"));
  EXPECT_EQ(last_of(*one, range), "none");
  EXPECT_EQ(last_of(*other, range), "none");
  // With `before`, its own appended key does not count, but entries before the hint do.
  write(*one, Write::put("line/6", std::string{}));
  write(*other, Write::append("line/7", ""));
  Range before = range.last();
  before.before = this_apply;
  const Outcome outcome =
      one->apply({.guards = {}, .writes = {Write::append("line/8", "")}, .reads = {before}});
  ASSERT_EQ(outcome.reads[0].size(), 1U);
  EXPECT_TRUE(outcome.reads[0][0].key.starts_with("line/7"));
}

}  // namespace
}  // namespace tenure::etcd

namespace tenure::conformance {

INSTANTIATE_TEST_SUITE_P(Etcd, StoreConformance,
                         ::testing::Values(StoreKind{"etcd", etcd::make_etcd, false}), kind_name);

}  // namespace tenure::conformance

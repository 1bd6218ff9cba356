// A session lives as long as its object, and a dead one stays dead.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

Range entry_of(std::string_view id) { return Range::key(std::string{session_prefix} += id); }

WatchFor death_of(std::string id) {
  WatchFor what;
  what.session = std::move(id);
  return what;
}

TEST_P(StoreConformance, ASessionIsAliveUntilItEnds) {
  auto session = store().open_session({});
  const std::string id = session->id();
  EXPECT_EQ(id.size(), 16U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  const Guard guard = session->guard();
  EXPECT_TRUE(store().alive(id));
  EXPECT_TRUE(another()->alive(id));
  EXPECT_TRUE(holds(guard));
  EXPECT_EQ(read(entry_of(id)).size(), 1U);
  EXPECT_FALSE(session->lost().stop_requested());

  session.reset();
  EXPECT_FALSE(store().alive(id));
  EXPECT_FALSE(holds(guard));
  EXPECT_TRUE(read(entry_of(id)).empty());
  put(std::string{session_prefix} + id);  // Whatever its entry says.
  EXPECT_FALSE(store().alive(id));
}

TEST_P(StoreConformance, ASessionIsDeadForItsGuardOnceItsEntryIsRemoved) {
  const auto session = store().open_session({});
  EXPECT_TRUE(holds(session->guard()));
  remove(std::string{session_prefix} + session->id());
  EXPECT_FALSE(holds(session->guard()));
}

TEST_P(StoreConformance, ASessionSaysWhoItIs) {
  const auto session = store().open_session({.label = "a \"label\" \xff", .ttl = {}});
  const auto entry = read(entry_of(session->id())).at(0);
  const auto json = nlohmann::json::parse(entry.value);
  EXPECT_EQ(json.at("pid"), ::getpid());
  EXPECT_FALSE(json.at("host").get<std::string>().empty());
  EXPECT_TRUE(json.at("label").get<std::string>().starts_with("a \"label\" "));
  EXPECT_LE(json.at("since").get<std::int64_t>(), store().now().time_since_epoch().count());
}

TEST_P(StoreConformance, SessionsAreOfTheirOwn) {
  auto first = store().open_session({});
  const auto second = store().open_session({});
  EXPECT_NE(first->id(), second->id());
  first.reset();
  EXPECT_TRUE(store().alive(second->id()));
  EXPECT_TRUE(holds(second->guard()));
  const auto third = store().open_session({});
  EXPECT_NE(third->id(), second->id());
}

TEST_P(StoreConformance, WhatWasNeverASessionIsDead) {
  for (const std::string_view id : {"", "0123456789abcdef", "not a session", "ffffffffffffffff0",
                                    "-000000000000001", "000000000000000G"}) {
    EXPECT_FALSE(store().alive(id)) << id;
  }
  EXPECT_FALSE(store().alive(std::string(1'000'000, '0')));
  Bell bell;
  const auto watch = store().watch(death_of("0123456789abcdef"), bell.notice());
  bell.wait();
}

TEST_P(StoreConformance, TheEndOfASessionIsTold) {
  auto session = store().open_session({});
  Bell later;
  const auto watch = store().watch(death_of(session->id()), later.notice());
  Bell gone;
  WatchFor removed;
  removed.ranges.push_back(entry_of(session->id()));
  removed.after = newest();
  const auto second = another()->watch(removed, gone.notice());
  const std::string id = session->id();
  session.reset();
  later.wait();
  gone.wait();
  Bell before;
  const auto third = store().watch(death_of(id), before.notice());
  before.wait();
}

TEST_P(StoreConformance, TheDeathOfASessionIsTold) {
  if (!place().kill) GTEST_SKIP() << "only a real death can be had";
  const auto session = store().open_session({});
  const std::string id = session->id();
  Bell bell;
  const auto watch = store().watch(death_of(id), bell.notice());
  place().kill(*session);
  bell.wait();
  EXPECT_FALSE(store().alive(id));
  EXPECT_EQ(read(entry_of(id)).size(), 1U);  // Until some process removes it.
  EXPECT_TRUE(holds(session->guard()));
  put("a");
  EXPECT_FALSE(store().alive(id));
}

}  // namespace
}  // namespace tenure::conformance

// Stores in several processes. This process opens no store: a client library such as gRPC may not
// survive a fork once it was used.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/conformance.hpp"
#include "tenure/space.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/process.hpp"

namespace tenure::conformance {
namespace {

std::size_t notices(Store& store) {
  const auto facts = store.facts();
  return std::stoul(std::ranges::find(facts, "notices", &Store::Fact::name)->value);
}

// Locks and releases on command; says how many notices it got, and how long the queue is.
void wait_in_line(const std::shared_ptr<Store>& store, const kit::Line& line) {
  const Space space = tenure::open(store, {.label = {}, .ttl = std::chrono::minutes{1}});
  std::optional<Hold> hold;
  std::jthread waits;
  while (const auto word = line.hear()) {
    if (*word == "lock") {
      waits = std::jthread{[&](const std::stop_token& stop) {
        hold = space.lock(Path::of("book"), stop);
        if (hold) line.say("holds");
      }};
    } else if (*word == "release") {
      waits.join();
      hold->release();
      line.say("released");
    } else {
      const std::size_t count = *word == "queue" ? space.inspect().size() : notices(*store);
      line.say(std::to_string(count));
    }
  }
}

}  // namespace

std::size_t count_notices(std::size_t processes, std::size_t releases,
                          const std::function<std::shared_ptr<Store>()>& open) {
  std::vector<kit::Process> queue;
  for (std::size_t i = 0; i <= processes; ++i) {
    queue.emplace_back([&open](const kit::Line& line) { wait_in_line(open(), line); });
  }
  const kit::Process& observer = queue.back();
  for (std::size_t i = 0; i < processes; ++i) {
    queue[i].tell("lock");
    if (i == 0) {
      EXPECT_EQ(queue[i].hear(), "holds");
    }
    kit::until([&] { return observer.ask("queue") == std::to_string(i + 1); });
  }
  const auto told = [&](std::size_t from) {
    std::size_t sum = 0;
    for (std::size_t i = from; i < processes; ++i) sum += std::stoul(queue[i].ask("notices"));
    return sum;
  };
  const std::size_t before = told(1);
  for (std::size_t i = 0; i < releases; ++i) {
    EXPECT_EQ(queue[i].ask("release"), "released");
    EXPECT_EQ(queue[i + 1].hear(), "holds");
  }
  const std::size_t sum = told(1) - before;
  for (kit::Process& one : queue) one.kill();
  return sum;
}

namespace {

using kit::Children;
using kit::Line;
using kit::Process;

constexpr std::size_t appliers = 8;

// What a separate process reads in the store.
std::string seen(const StoreUnderTest& place, const std::function<std::string(Store&)>& look) {
  const Process observer{[&](const Line& line) { line.say(look(*place.open())); }};
  return observer.hear();
}

TEST_P(StoreProcesses, LoseNothing) {
  Children children;
  children.start(appliers, [this](std::size_t index) {
    const auto mine = place().open();
    count(*mine, index);
    return 0;
  });
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(appliers, 0));
  EXPECT_EQ(seen(place(), counted), counted_by(appliers));
}

// A watch of one process fires when another one writes.
TEST_P(StoreProcesses, WatchEachOther) {
  constexpr int rounds = 200;
  Children children;
  children.start(2, [this](std::size_t index) {
    const auto mine = place().open();
    const std::string own = index == 0 ? "ping" : "pong";
    const std::string theirs = index == 0 ? "pong" : "ping";
    for (int round = 1; round <= rounds; ++round) {
      mine->apply(txn({}, {Write::put(own, std::to_string(round))}));
      for (;;) {
        const Outcome look = mine->apply(txn({}, {}, {Range::key(theirs)}));
        const auto& found = look.reads.at(0);
        if (!found.empty() && std::stoi(found[0].value) >= round) break;
        WatchFor what;
        what.ranges.push_back(Range::key(theirs));
        what.after = look.revision;
        Bell bell;
        const auto watch = mine->watch(what, bell.notice());
        bell.wait();
      }
    }
    return 0;
  });
  EXPECT_EQ(children.exit_statuses(), (std::vector<int>{0, 0}));
}

// Of a thousand watched ranges, only the one that another process writes to is notified.
TEST_P(StoreProcesses, AreToldOfTheRangesThatOthersWrite) {
  constexpr int ranges = 1000;
  const auto prefix = [](int i) { return "r/" + std::to_string(1000 + i) + "/"; };
  const Process observer{[&](const Line& line) {
    const auto store = place().open();
    std::vector<std::unique_ptr<Watch>> watches;
    const auto watch = [&](std::string start, Revision after, Store::Notice notice) {
      WatchFor what;
      what.ranges.push_back(Range::prefix(std::move(start)));
      what.after = after;
      watches.push_back(store->watch(std::move(what), std::move(notice)));
    };
    // A store that has just begun to listen for changes notifies all watches once.
    Bell listens;
    watch("a", store->apply({}).revision, listens.notice());
    line.say("watching a");
    listens.wait();
    const Revision before = store->apply({}).revision;
    std::atomic<int> told = 0;
    for (int i = 0; i < ranges; ++i) watch(prefix(i), before, [&told] { ++told; });
    Bell last;
    watch("z", before, last.notice());
    line.say("watching all");
    last.wait();  // Notices come in the order of writes.
    line.say(std::to_string(told));
  }};
  const Process writer{[&](const Line& line) {
    const auto store = place().open();
    while (const auto key = line.hear()) {
      store->apply(txn({}, {Write::put(*key, "")}));
      line.say("written");
    }
  }};
  ASSERT_EQ(observer.hear(), "watching a");
  ASSERT_EQ(writer.ask("a"), "written");
  ASSERT_EQ(observer.hear(), "watching all");
  for (const std::string& key : {prefix(17) + "1", prefix(17) + "2", std::string{"r/1"}}) {
    ASSERT_EQ(writer.ask(key), "written");
  }
  ASSERT_EQ(writer.ask("z"), "written");
  EXPECT_EQ(observer.hear(), "1");
}

// A process that is killed while it writes leaves complete applies only.
TEST_P(StoreProcesses, LeaveNoHalfApplyWhenKilled) {
  {
    std::vector<Process> writers;
    for (int index = 0; index < 4; ++index) {
      writers.emplace_back([this, index](const Line& line) {
        const auto mine = place().open();
        for (int i = 0;; ++i) {
          const std::string value = std::to_string(index) + "/" + std::to_string(i);
          mine->apply(txn({}, {Write::put("a", value), Write::put("b", value)}));
          if (i == 10) line.say("writing");
        }
      });
    }
    for (const Process& writer : writers) ASSERT_EQ(writer.hear(), "writing");
  }
  EXPECT_EQ(seen(place(),
                 [](Store& store) -> std::string {
                   const auto found = store.apply(txn({}, {}, {everything()})).reads.at(0);
                   if (found.size() != 2) return std::to_string(found.size()) + " keys";
                   if (found[0].value != found[1].value) return "half an apply";
                   if (found[0].changed != found[1].changed) return "two revisions";
                   const Revision next = store.apply(txn({}, {Write::put("a", "")})).revision;
                   return next > found[0].changed ? "whole" : "a revision that is not larger";
                 }),
            "whole");
}

TEST_P(StoreProcesses, LearnOfADeath) {
  Process dying{[this](const Line& line) {
    const auto mine = place().open();
    const auto session = mine->open_session({});
    line.say(session->id());
    for (;;) ::pause();
  }};
  const Process observer{[this](const Line& line) {
    const std::string id = line.hear().value();
    const auto store = place().open();
    const auto state = [&] { return store->alive(id) ? "alive" : "dead"; };
    WatchFor death;
    death.session = id;
    line.say(state());
    Bell bell;
    const auto watch = store->watch(death, bell.notice());
    line.say("watching");
    bell.wait();
    line.say(state());
    const Range entry = Range::key(std::string{session_prefix} + id);
    line.say(std::to_string(store->apply(txn({}, {}, {entry})).reads.at(0).size()) + " entry");
    const auto another = store->open_session({});
    line.say(state());
  }};
  EXPECT_EQ(observer.ask(dying.hear()), "alive");
  EXPECT_EQ(observer.hear(), "watching");
  dying.kill();
  EXPECT_EQ(observer.hear(), "dead");
  EXPECT_EQ(observer.hear(), "1 entry");
  EXPECT_EQ(observer.hear(), "dead");
}

}  // namespace
}  // namespace tenure::conformance

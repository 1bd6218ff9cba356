// Jepsen's lock experiment: processes add elements to a set under a lock (read the set, add one,
// write it). Each in turn is stopped past its lease, or cut off from the lock for as long, between
// its read and its write. If the set refuses late writers (shared_set.hpp), no acknowledged element
// may be missing at the end. If it does not, updates can be lost, and the test reports how many
// were.
//
// TENURE_FAULTS_STRIKES (2): how many processes are stopped or cut off.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/tenure.hpp"
#include "tests/faults/shared_set.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::faults {
namespace {

using namespace std::chrono_literals;
using kit::Line;
using kit::lock_client;
using kit::Postgres;
using kit::Process;
using kit::Proxy;
using kit::Schema;

constexpr std::size_t workers = 4;
constexpr std::size_t most_elements = 100'000;
constexpr std::uint64_t at_a_time = 50;  // Elements; the set is written whole each time.
constexpr std::chrono::milliseconds lease = 2'000ms;
constexpr int nobody = -1;

enum class Kind : std::uint8_t { postgres, etcd };
std::string name(Kind kind) { return kind == Kind::postgres ? "Postgres" : "Etcd"; }

// A new, empty space in one of the stores.
class TestSpace {
 public:
  explicit TestSpace(Kind kind) : kind_(kind) {
    if (kind == Kind::postgres) {
      schema_ = std::make_unique<Schema>();
    } else {
      static_cast<void>(kit::Etcd::instance());
    }
  }
  [[nodiscard]] int port() const {
    return kind_ == Kind::postgres ? Postgres::instance().port() : kit::Etcd::instance().port();
  }
  // Through the server's port, or that of a proxy in front of it.
  [[nodiscard]] std::string url(int port) const {
    if (kind_ == Kind::postgres) return schema_->url_at(port);
    return "etcd://127.0.0.1:" + std::to_string(port) + '/' + prefix_ + "?timeout=2s";
  }
  [[nodiscard]] const Schema& schema() const { return *schema_; }

 private:
  Kind kind_;
  std::unique_ptr<Schema> schema_;
  const std::string prefix_ = kit::new_prefix();
};

// --- one holder that is late

class LateWriter : public ::testing::TestWithParam<Kind> {
 protected:
  // `late` has read the set, and is stopped until `next` has the lock.
  void pass_on() {
    ASSERT_EQ(
        late.ask("open " + test_space.url(test_space.port()) + ' ' + std::to_string(lease.count())),
        "ok");
    ASSERT_EQ(next.ask("open " + test_space.url(test_space.port()) + " 120000"), "ok");
    ASSERT_EQ(late.ask("lock book"), "holds");
    token = Token{std::stoull(late.ask("token"))};
    key = late.ask("key");
    ASSERT_EQ(late.ask("read set"), "none");
    late.stop();
    ASSERT_EQ(next.ask("lock book"), "holds");
    ASSERT_EQ(next.ask("read set"), "none");
  }

  const TestSpace test_space{GetParam()};
  const Process late{lock_client()};
  const Process next{lock_client()};
  Token token;
  std::string key;
};

TEST_P(LateWriter, M02_UnfencedItUndoesWhatTheNextOneDid) {
  pass_on();
  EXPECT_EQ(next.ask("put set next"), "yes");
  late.go_on();
  EXPECT_EQ(late.ask("put set late"), "yes");
  EXPECT_EQ(next.ask("read set"), "late");
}

TEST_P(LateWriter, M02_WithItsGuardItIsRefused) {
  pass_on();
  EXPECT_EQ(next.ask("write set next"), "yes");
  late.go_on();
  EXPECT_EQ(late.ask("write set late"), "no");
  EXPECT_EQ(next.ask("read set"), "next");
}

TEST_P(LateWriter, M02_WithItsTokenItIsRefused) {
  pass_on();
  Fence fence;
  EXPECT_TRUE(fence.admit(token, Mode::exclusive()));
  EXPECT_TRUE(fence.admit(Token{std::stoull(next.ask("token"))}, Mode::exclusive()));
  EXPECT_FALSE(fence.admit(token, Mode::exclusive()));
  late.go_on();
}

INSTANTIATE_TEST_SUITE_P(Stores, LateWriter, ::testing::Values(Kind::postgres, Kind::etcd),
                         [](const auto& tested) { return name(tested.param); });

using LateTransaction = LateWriter;

TEST_P(LateTransaction, M02_IsRefusedByTheFence) {
  pass_on();
  const auto fence = [this](const std::string& held) {
    return "SELECT " + test_space.schema().name() + ".fence('\\x" + held + "'::bytea)";
  };
  EXPECT_NO_THROW(Postgres::instance().sql(fence(next.ask("key"))));
  EXPECT_THROW(Postgres::instance().sql(fence(key)), std::runtime_error);
  late.go_on();
}

INSTANTIATE_TEST_SUITE_P(Stores, LateTransaction, ::testing::Values(Kind::postgres),
                         [](const auto& tested) { return name(tested.param); });

// --- many, at random

enum class Fencing : std::uint8_t { none, guard, transaction, token };

struct Scene {
  std::atomic<int> target = nobody;  // The process to catch between its read and its write,
  std::atomic<int> caught = nobody;  // and the one that was caught, until it may go on.
  std::atomic<bool> stopping = false;
  std::atomic<std::uint64_t> added = 0;
  std::atomic<std::uint64_t> enough = at_a_time;  // Only the target may add more for now.
  std::array<std::array<std::atomic<bool>, most_elements>, workers> acknowledged{};
};

class Adder {
 public:
  Adder(std::size_t self, std::shared_ptr<Store> store, std::unique_ptr<SharedSet> set,
        Scene& scene)
      : self_(self), store_(std::move(store)), set_(std::move(set)), scene_(scene) {}

  void add_all() {
    while (!scene_.stopping.load() && count_ < most_elements) {
      if (scene_.added.load() < scene_.enough.load() || is_target()) {
        add_one();
      } else {
        std::this_thread::sleep_for(1ms);  // Lets the driver look.
      }
    }
  }

  // How many acknowledged elements are missing.
  [[nodiscard]] std::size_t missing() const {
    std::set<std::string> there;
    std::istringstream words{set_->look()};
    for (std::string word; words >> word;) there.insert(word);
    std::size_t lost = 0;
    for (std::size_t i = 0; i < workers; ++i) {
      for (std::size_t j = 0; j < most_elements; ++j) {
        if (!scene_.acknowledged.at(i).at(j).load()) continue;
        if (!there.contains(element(i, j))) ++lost;
      }
    }
    return lost;
  }

 private:
  [[nodiscard]] bool is_target() const { return scene_.target.load() == static_cast<int>(self_); }
  static std::string element(std::size_t who, std::size_t number) {
    return std::to_string(who) + '.' + std::to_string(number);
  }

  void add_one() {
    try {
      if (!space_) space_.emplace(open(store_, {.label = "adder", .ttl = lease}));
      const Hold hold = space_->lock(Path::of("set"));
      const std::size_t number = count_++;
      const std::optional<std::string> set = set_->read(hold);
      pause();
      if (set && set_->write(hold, *set + ' ' + element(self_, number))) {
        scene_.acknowledged.at(self_).at(number) = true;
        scene_.added.fetch_add(1);
      }
      if (hold.lost().stop_requested()) space_.reset();
    } catch (const SessionLost&) {
      space_.reset();
    } catch (const Evicted&) {
      space_.reset();
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
      // Refused or unknown: not acknowledged.
    }
  }

  // The driver holds it while the process is caught.
  void pause() {
    if (!is_target()) return;
    scene_.caught = static_cast<int>(self_);
    while (is_target()) std::this_thread::sleep_for(1ms);
  }

  const std::size_t self_;
  const std::shared_ptr<Store> store_;
  const std::unique_ptr<SharedSet> set_;
  Scene& scene_;
  std::optional<Space> space_;
  std::size_t count_ = 0;
};

// Receives the URL of its lock, and then what its set needs; says "done" when all are to end, and
// answers the next message with the number of missing elements.
void add(const Line& line, std::size_t self, Fencing fencing, Scene& scene) {
  const auto told = line.hear();
  if (!told) return;
  std::istringstream words{*told};
  std::string url;
  std::string where;
  std::string schema;
  words >> url >> where >> schema;
  auto store = tenure::store(url);
  std::unique_ptr<SharedSet> set;
  switch (fencing) {
    case Fencing::none: set = set_in_store(store, false); break;
    case Fencing::guard: set = set_in_store(store, true); break;
    case Fencing::transaction: set = set_in_table(where, schema); break;
    case Fencing::token: set = set_in_file(where); break;
  }
  Adder adder{self, std::move(store), std::move(set), scene};
  adder.add_all();
  line.say("done");
  if (line.hear()) line.say(std::to_string(adder.missing()));
}

class LockSet : public ::testing::TestWithParam<Kind> {
 protected:
  // Returns how many acknowledged elements are missing.
  std::size_t run(Fencing fencing, const char* how) {
    for (std::size_t i = 0; i < workers; ++i) {
      adders_.push_back(std::make_unique<Process>(
          [this, i, fencing](const Line& line) { add(line, i, fencing, *scene_); }));
    }
    const std::string more = place_for(fencing);
    for (const auto& adder : adders_) {
      networks_.push_back(std::make_unique<Proxy>(test_space_.port()));
      adder->tell(test_space_.url(networks_.back()->port()) + ' ' + more);
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it.
    const char* const text = std::getenv("TENURE_FAULTS_STRIKES");
    const int strikes = text == nullptr ? 2 : std::stoi(text);
    for (int i = 0; i < strikes; ++i) strike(i % static_cast<int>(workers), i % 2 == 1);
    scene_->stopping = true;
    for (const auto& adder : adders_) EXPECT_EQ(adder->hear(), "done");
    const std::size_t lost = std::stoul(adders_.front()->ask("missing"));
    std::printf("lock-set, %s, %s: %llu elements acknowledged, %d pauses, %d cuts, %zu lost\n",
                name(GetParam()).c_str(), how,
                static_cast<unsigned long long>(scene_->added.load()), (strikes + 1) / 2,
                strikes / 2, lost);
    return lost;
  }

 private:
  std::string place_for(Fencing fencing) {
    if (fencing == Fencing::token) return (directory_.path() / "set").string();
    if (fencing != Fencing::transaction) return {};
    const Postgres& server = Postgres::instance();
    const std::string table = test_space_.schema().name() + "_set";
    server.sql("CREATE TABLE " + table + "(body text NOT NULL); INSERT INTO " + table +
               " VALUES ('')");
    return server.url() + ' ' + test_space_.schema().name();
  }

  // Until the others have gone on without it: its lease has expired then.
  void strike(int who, bool cut) {
    const auto at = static_cast<std::size_t>(who);
    scene_->enough = scene_->added.load() + at_a_time;
    scene_->target = who;
    while (scene_->caught.load() != who) wait_a_little();
    if (cut) {
      networks_[at]->door(Proxy::Door::shut);
      networks_[at]->cut();
    } else {
      adders_[at]->stop();
    }
    until_added(3);
    scene_->caught = nobody;
    scene_->target = nobody;
    if (cut) {
      networks_[at]->door(Proxy::Door::open);
    } else {
      adders_[at]->go_on();
    }
    until_added(3);
  }

  void until_added(std::uint64_t more) {
    const std::uint64_t wanted = scene_->added.load() + more;
    scene_->enough = scene_->added.load() + at_a_time;
    while (scene_->added.load() < wanted) wait_a_little();
  }

  void wait_a_little() const {
    for (const auto& adder : adders_) {
      if (!adder->runs()) throw std::runtime_error("a process of the experiment has ended");
    }
    std::this_thread::sleep_for(1ms);
  }

  const kit::TemporaryDirectory directory_;
  const TestSpace test_space_{GetParam()};
  const kit::Shared<Scene> scene_;
  std::vector<std::unique_ptr<Process>> adders_;
  std::vector<std::unique_ptr<Proxy>> networks_;
};

// What a lease can't promise: asserts only that the experiment ran.
TEST_P(LockSet, M02_UnfencedUpdatesCanBeLost) {
  RecordProperty("lost", static_cast<int>(run(Fencing::none, "unfenced")));
}

TEST_P(LockSet, M02_WithTheGuardInTheWriteNoneIsLost) {
  EXPECT_EQ(run(Fencing::guard, "guard in the write"), 0U);
}

TEST_P(LockSet, M02_WithTheTokenAtTheResourceNoneIsLost) {
  EXPECT_EQ(run(Fencing::token, "token at the resource"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Stores, LockSet, ::testing::Values(Kind::postgres, Kind::etcd),
                         [](const auto& tested) { return name(tested.param); });

using LockSetInTable = LockSet;

TEST_P(LockSetInTable, M02_WithTheFenceInTheUsersTransactionNoneIsLost) {
  EXPECT_EQ(run(Fencing::transaction, "fence() in the user's transaction"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Stores, LockSetInTable, ::testing::Values(Kind::postgres),
                         [](const auto& tested) { return name(tested.param); });

}  // namespace
}  // namespace tenure::faults

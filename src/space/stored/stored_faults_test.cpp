// Every call, with a fault at every apply that it leads to: whatever the call says, nothing is left
// behind when the store works again, and the space can go.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/detached.hpp"
#include "space/stored/forwarding_store_test.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");
const Path film = Path::of("film");
constexpr auto long_time = 24h * 365;  // The clock is advanced by seconds while a call runs.

// What happens to the n-th apply that is not the test's own, and to those behind it.
enum class Fault : std::uint8_t { before, after, before_and_on, after_and_on };

// A server, as far as a space can tell.
class RemoteStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  [[nodiscard]] bool remote() const noexcept override { return true; }
};

// A store whose n-th apply fails.
class FaultyStore {
 public:
  FaultyStore(Fault fault, int nth) : fault_(fault), nth_(nth) {
    store_->before_apply([this](const Txn& txn) { meet(txn); });
  }
  [[nodiscard]] std::shared_ptr<Store> get(bool remote) const {
    if (remote) return std::make_shared<RemoteStore>(store_);
    return store_;
  }
  void start() noexcept { on_ = true; }
  void stop() noexcept { on_ = false; }
  [[nodiscard]] bool met() const noexcept { return count_ >= nth_; }
  [[nodiscard]] std::uint64_t applies() const noexcept { return applies_; }

  // The applies of the thread that made this object do not count.
  void meet(const Txn& txn) {
    if (std::this_thread::get_id() == own_ || applying) return;
    ++applies_;
    if (!on_) return;
    const int count = ++count_;
    const bool goes_on = fault_ == Fault::before_and_on || fault_ == Fault::after_and_on;
    if (count < nth_ || (count > nth_ && !goes_on)) return;
    if (count > nth_ || fault_ == Fault::before || fault_ == Fault::before_and_on) {
      throw StoreError("refused");
    }
    applying = true;
    store_->apply(txn);
    applying = false;
    throw StoreError("no answer", true);
  }

  [[nodiscard]] std::size_t entries(std::string_view prefix) {
    Txn txn;
    txn.reads = {Range::prefix(std::string{prefix})};
    return store_->apply(txn).reads.front().size();
  }
  void pass_time() {
    store_->settle();
    store_->advance(1s);
  }

 private:
  static thread_local bool applying;
  const Fault fault_;
  const int nth_;
  const std::thread::id own_ = std::this_thread::get_id();
  std::atomic<bool> on_ = false;
  std::atomic<int> count_ = 0;
  std::atomic<std::uint64_t> applies_ = 0;
  std::shared_ptr<MemoryStore> store_ =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
};
thread_local bool FaultyStore::applying = false;

struct Scene {
  Space& space;
  std::stop_source& stop;
};
struct Call {
  std::string name;
  bool contended;                      // Another holds `book` until the call waits, or has ended.
  std::function<Hold(Scene)> prepare;  // Without faults: what the call is made on.
  std::function<void(Scene, Hold&)> make;
};

base::Detached wait_for_book(Locker locker, std::latch& done) {
  try {
    const Hold hold = co_await locker.async_lock(book);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // As the other calls: only what is left matters.
  }
  done.count_down();
}

const std::vector<Call>& calls() {
  static const auto none = [](Scene) { return Hold{}; };
  static const auto held = [](Scene s) { return s.space.lock({book, film.shared()}); };
  static const auto held_for_long = [](Scene s) { return s.space.max_hold(long_time).lock(book); };
  static const std::vector<Call> all{
      {"lock", false, none, [](Scene s, Hold&) { (void)s.space.lock(book); }},
      {"lock_several", false, none, [](Scene s, Hold&) { (void)s.space.lock({book, film}); }},
      {"lock_permits", false, none, [](Scene s, Hold&) { (void)s.space.lock(book.permits(2)); }},
      {"lock_max_hold", false, none,
       [](Scene s, Hold&) { (void)s.space.max_hold(long_time).lock(book); }},
      {"lock_as_owner", true, none, [](Scene s, Hold&) { (void)s.space.as("a").lock(book); }},
      {"lock_waits", true, none, [](Scene s, Hold&) { (void)s.space.lock(book); }},
      {"lock_waits_max_hold", true, none,
       [](Scene s, Hold&) { (void)s.space.max_hold(long_time).lock(book); }},
      {"lock_is_stopped", true, none,
       [](Scene s, Hold&) { (void)s.space.lock(book, s.stop.get_token()); }},
      {"async_lock_waits", true, none,
       [](Scene s, Hold&) {
         std::latch done{1};
         wait_for_book(s.space, done);
         done.wait();
       }},
      {"try_lock", false, none, [](Scene s, Hold&) { (void)s.space.try_lock(book); }},
      {"try_lock_taken", true, none, [](Scene s, Hold&) { (void)s.space.try_lock(book); }},
      {"try_lock_several", false, none,
       [](Scene s, Hold&) { (void)s.space.try_lock({book.permits(2), film}); }},
      {"try_lock_max_hold", false, none,
       [](Scene s, Hold&) { (void)s.space.max_hold(long_time).try_lock(book); }},
      {"try_lock_for", true, none, [](Scene s, Hold&) { (void)s.space.try_lock_for(book, 1ms); }},
      {"release", false, held, [](Scene, Hold& hold) { hold.release(); }},
      {"drop", false, held, [](Scene, Hold& hold) { hold = {}; }},
      {"renew", false, held_for_long, [](Scene, Hold& hold) { hold.renew(); }},
      {"downgrade", false, held, [](Scene, Hold& hold) { hold.downgrade(film.shared()); }},
      {"deadline", false, held_for_long, [](Scene, Hold& hold) { (void)hold.deadline(); }},
      {"lost", false, held_for_long, [](Scene, Hold& hold) { (void)hold.lost(); }},
      {"inspect", true, held, [](Scene s, Hold&) { (void)s.space.inspect(); }},
      {"evict", false, held, [](Scene s, Hold& hold) { s.space.evict(hold.token()); }},
      {"evict_now", false, held, [](Scene s, Hold& hold) { s.space.evict_now(hold.token()); }},
  };
  return all;
}

class StoredFaults : public ::testing::TestWithParam<std::tuple<Call, bool>> {
 protected:
  // False: the call makes fewer than n applies.
  static bool run(const Call& call, bool remote, Fault fault, int nth) {
    FaultyStore faulty{fault, nth};
    std::optional<Space> other = open(faulty.get(false));
    std::optional<Space> space = open(faulty.get(remote));
    std::stop_source stop;
    const Scene scene{.space = *space, .stop = stop};
    {
      Hold hold = call.contended ? Hold{} : call.prepare(scene);
      std::optional<Hold> blocker;
      if (call.contended) blocker = other->lock(book);
      faulty.start();
      std::atomic<bool> done = false;
      const std::jthread caller{[&] {
        try {
          call.make(scene, hold);
        } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
          // Either way: what counts is what is left.
        }
        done = true;
      }};
      for (int after = 0; !done; after += faulty.met() ? 1 : 0) {
        if (other->inspect(book).size() > 1) {
          stop.request_stop();
          blocker.reset();
        }
        if (after == 20) faulty.stop();  // A wait goes on until the store works again.
        faulty.pass_time();
      }
      faulty.pass_time();
      faulty.stop();
    }
    // On a server, threads of the space remove what their callers gave up. The clock stands still
    // while they are late: all is gone within these seconds after the last thing that they did.
    constexpr int seconds = 5;
    std::uint64_t applies = faulty.applies();
    int passed = 0;
    kit::until([&] {
      if (const std::uint64_t now = faulty.applies(); now != std::exchange(applies, now))
        passed = 0;
      if (passed++ < seconds) faulty.pass_time();
      return faulty.entries("\x01") + faulty.entries("\x02") == 0;
    });
    EXPECT_TRUE(other->try_lock({book, film}));
    if (HasFailure()) return false;  // What is left keeps its session for ever.
    space.reset();
    other.reset();
    while (faulty.entries(session_prefix) != 0) {
      faulty.pass_time();
      std::this_thread::yield();
    }
    return faulty.met();
  }
};

TEST_P(StoredFaults, LeaveNothingBehind) {
  for (const Fault fault :
       {Fault::before, Fault::after, Fault::before_and_on, Fault::after_and_on}) {
    for (int nth = 1;; ++nth) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at apply " +
                   std::to_string(nth));
      const auto& [call, remote] = GetParam();
      const bool met = run(call, remote, fault, nth);
      if (!met || HasFailure()) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, StoredFaults,
                         ::testing::Combine(::testing::ValuesIn(calls()), ::testing::Bool()),
                         [](const auto& test) {
                           const bool remote = std::get<1>(test.param);
                           return std::get<0>(test.param).name + (remote ? "_remote" : "");
                         });

}  // namespace
}  // namespace tenure::stored

// Answers of the store that get lost: every call, with each apply that it makes failing in each
// way, alone and two in a row. A call may throw StoreError, but it never says what is not so, no
// hold is lost without a reason, nothing is held twice and nothing stays behind.
//
// Each row of `calls` is one public call and what comes before it. To test another call, add a row.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

const Path shelf = Path::of("shelf");
const Path table = Path::of("table");

enum class Loss : std::uint8_t {
  refused,   // The store says that it did nothing.
  question,  // Nobody knows, and it was not made.
  answer,    // Nobody knows, and it was made.
};
constexpr std::array<Loss, 3> losses = {Loss::refused, Loss::question, Loss::answer};
constexpr std::array<const char*, 3> loss_names = {"refused", "question lost", "answer lost"};

// Which applies, counted from one, meet which loss.
using Losses = std::map<int, Loss>;

std::string text_of(const Losses& planned) {
  std::string text;
  for (const auto& [apply, loss] : planned) {
    text += (text.empty() ? "apply " : ", apply ") + std::to_string(apply) + ": " +
            loss_names.at(static_cast<std::size_t>(loss));
  }
  return text;
}

// A store, the space that makes the call, and one of another process.
class LossScenario {
 public:
  void lose(Losses planned) {
    auto left = std::make_shared<Losses>(std::move(planned));
    store->before_apply([this, left](const Txn& txn) {
      if (aside) return;
      std::optional<Loss> loss;
      {
        const std::lock_guard lock{mutex_};
        if (const auto at = left->find(++applies_); at != left->end()) loss = at->second;
      }
      if (!loss.has_value()) return;
      // Of a read there is nothing that could have been made.
      if (txn.writes.empty() || loss == Loss::refused) throw StoreError("refused");
      if (loss == Loss::answer) static_cast<void>(apply_aside(txn));
      throw StoreError("lost", true);
    });
  }
  [[nodiscard]] int applies() {
    const std::lock_guard lock{mutex_};
    return applies_;
  }
  void end_losses() { store->before_apply(nullptr); }

  // Lets time pass, much less than any max_hold here, so that what failed is retried.
  void let_pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      store->settle();
      store->advance(1s);
    }
    store->settle();
  }
  // The lock that waits, in a thread, until the other process gives it back.
  [[nodiscard]] bool wait_for_theirs(const Request& request) {
    std::stop_source stop;
    std::atomic<bool> ended = false;
    std::exception_ptr error;
    std::jthread waiting{[&] {
      try {
        if (auto got = ours.lock(request, stop.get_token())) hold = *std::move(got);
      } catch (...) {
        error = std::current_exception();
      }
      ended = true;
    }};
    const std::size_t before = their_tickets;
    while (!ended && tickets() == before) std::this_thread::yield();
    give_back_theirs();
    // A wake-up that got lost is a wait that never ends: this fails it.
    const auto limit = std::chrono::steady_clock::now() + longest_wait;
    while (!ended && std::chrono::steady_clock::now() < limit) let_pass(1);
    stop.request_stop();
    waiting.join();
    if (error) std::rethrow_exception(error);
    return static_cast<bool>(hold);
  }
  void give_back_theirs() {
    try {
      their_hold.release();
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
      // Then it is given back later.
    }
  }
  [[nodiscard]] std::size_t tickets() const {
    Txn txn;
    txn.reads = {Range::prefix("\x01"), Range::prefix("\x02")};
    const Outcome outcome = apply_aside(txn);
    return outcome.reads[0].size() + outcome.reads[1].size();
  }
  [[nodiscard]] std::string session_of(Token token) const {
    for (const TicketInfo& info : watching.inspect()) {
      if (info.ticket.number == token) return info.session;
    }
    return {};
  }

  static constexpr auto longest_wait = 30s;
  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Space watching = open(store);
  Space ours = open(store);
  Space theirs = open(store);
  Hold hold;  // Ours.
  Hold their_hold;
  std::size_t their_tickets = 0;

 private:
  // Neither counted nor lost.
  [[nodiscard]] Outcome apply_aside(const Txn& txn) const {
    aside = true;
    Outcome outcome = store->apply(txn);
    aside = false;
    return outcome;
  }
  static thread_local bool aside;
  std::mutex mutex_;
  int applies_ = 0;
};

thread_local bool LossScenario::aside = false;

struct Call {
  const char* name;
  void (*prepare)(LossScenario& scenario);
  bool (*make)(LossScenario& scenario);  // False: it said no, which is wrong in every row here.
  bool ends_hold = false;  // However it ends, what was held before it is not held any more.
};

void hold_both(LossScenario& scenario) {
  scenario.hold = scenario.ours.max_hold(1h).lock({shelf, table});
}
void they_hold(LossScenario& scenario) {
  scenario.their_hold = scenario.theirs.lock(shelf);
  scenario.their_tickets = 1;
}
void they_die(LossScenario& scenario) {
  they_hold(scenario);
  scenario.store->kill_session(scenario.session_of(scenario.their_hold.token()));
}
void they_are_overdue(LossScenario& scenario) {
  scenario.their_hold = scenario.theirs.max_hold(1s).lock(shelf);
  scenario.store->advance(2s);
}
void nothing(LossScenario& /*scenario*/) {}

bool keep(LossScenario& scenario, std::optional<Hold> hold) {
  if (hold) scenario.hold = *std::move(hold);
  return static_cast<bool>(scenario.hold);
}

// NOLINTBEGIN(modernize-use-designated-initializers): rows of a table.
const std::vector<Call> calls = {
    {"lock", nothing, [](LossScenario& s) { return keep(s, s.ours.lock(shelf)); }},
    {"lock two", nothing,
     [](LossScenario& s) { return keep(s, s.ours.lock({shelf, table.shared()})); }},
    {"lock a permit", nothing,
     [](LossScenario& s) { return keep(s, s.ours.lock(shelf.permits(1))); }},
    {"lock with max_hold", nothing,
     [](LossScenario& s) { return keep(s, s.ours.max_hold(1h).lock(shelf)); }},
    {"lock as an owner", nothing,
     [](LossScenario& s) { return keep(s, s.ours.as("job").lock(shelf)); }},
    {"lock after a dead holder", they_die,
     [](LossScenario& s) { return keep(s, s.ours.lock(shelf)); }},
    {"lock after an overdue holder", they_are_overdue,
     [](LossScenario& s) { return keep(s, s.ours.lock(shelf)); }},
    {"lock that waits", they_hold, [](LossScenario& s) { return s.wait_for_theirs(shelf); }},
    {"lock of two that waits", they_hold,
     [](LossScenario& s) { return s.wait_for_theirs({shelf, table}); }},
    {"lock that times out", they_hold,
     [](LossScenario& s) { return !s.ours.try_lock_for(shelf, 1ms).has_value(); }},
    {"try_lock", nothing, [](LossScenario& s) { return keep(s, s.ours.try_lock(shelf)); }},
    {"try_lock two", nothing,
     [](LossScenario& s) { return keep(s, s.ours.try_lock({shelf, table})); }},
    {"try_lock a permit", nothing,
     [](LossScenario& s) { return keep(s, s.ours.try_lock(shelf.permits(1))); }},
    {"try_lock after a dead holder", they_die,
     [](LossScenario& s) { return keep(s, s.ours.try_lock(shelf)); }},
    {"try_lock that is refused", they_hold,
     [](LossScenario& s) { return !s.ours.try_lock(shelf).has_value(); }},
    {"try_lock with max_hold", nothing,
     [](LossScenario& s) { return keep(s, s.ours.max_hold(1h).try_lock(shelf)); }},
    {"downgrade to one", hold_both,
     [](LossScenario& s) {
       s.hold.downgrade(shelf);
       return true;
     }},
    {"downgrade to the second", hold_both,
     [](LossScenario& s) {
       s.hold.downgrade(table);
       return true;
     }},
    {"downgrade to a group", hold_both,
     [](LossScenario& s) {
       s.hold.downgrade({shelf.shared(), table});
       return true;
     }},
    {"renew", hold_both, [](LossScenario& s) { return s.hold.renew(); }},
    {"deadline", hold_both, [](LossScenario& s) { return s.hold.deadline().has_value(); }},
    {"inspect", hold_both, [](LossScenario& s) { return s.ours.inspect().size() == 1; }},
    {"evict by another", hold_both, [](LossScenario& s) { return s.theirs.evict(s.hold.token()); },
     true},
    {"evict_now by another", hold_both,
     [](LossScenario& s) { return s.theirs.evict_now(s.hold.token()); }, true},
    {"release", hold_both, [](LossScenario& s) { return s.hold.release(); }},
    {"drop", hold_both,
     [](LossScenario& s) {
       s.hold = {};
       return true;
     }},
    {"close while it holds", hold_both,
     [](LossScenario& s) {
       s.hold = {};
       s.ours = open(s.store);
       return true;
     }},
    {"open after a death", they_die,
     [](LossScenario& s) {
       s.ours = open(s.store);
       return true;
     }},
};
// NOLINTEND(modernize-use-designated-initializers)

class StoredAnswers : public ::testing::TestWithParam<Call> {};

// How many applies there were.
int try_with(const Call& call, const Losses& planned) {
  LossScenario scenario;
  call.prepare(scenario);
  std::stop_token lost;
  if (scenario.hold) lost = scenario.hold.lost();
  scenario.store->settle();
  const Token before = scenario.hold ? scenario.hold.token() : scenario.their_hold.token();
  scenario.lose(planned);
  try {
    EXPECT_TRUE(call.make(scenario)) << "it said no";
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
    // Which any call may throw that meets one; what else it throws fails the test.
  }
  const int applies = scenario.applies();
  scenario.let_pass(2);
  scenario.end_losses();
  Token newest = before;
  if (scenario.hold && !call.ends_hold) {
    scenario.let_pass(3);
    EXPECT_FALSE(lost.stop_requested()) << "lost() fired without a reason";
    EXPECT_FALSE(scenario.hold.lost().stop_requested()) << "lost() fired without a reason";
    // A downgrade may have freed one of the two.
    EXPECT_FALSE(scenario.theirs.try_lock({shelf, table})) << "held twice";
    newest = std::max(newest, scenario.hold.token());
    EXPECT_TRUE(scenario.hold.release()) << "its ticket is not there";
  }
  scenario.hold = {};
  scenario.their_hold = {};
  scenario.let_pass(5);
  EXPECT_EQ(scenario.tickets(), 0U) << "left behind";
  const std::optional<Hold> next = scenario.watching.try_lock({shelf, table});
  EXPECT_TRUE(next && next->token() > newest);
  return applies;
}

TEST_P(StoredAnswers, MayGetLost) {
  const Call& call = GetParam();
  const auto tried = [&call](const Losses& planned) {
    SCOPED_TRACE(std::string{call.name} + ", " + text_of(planned));
    return try_with(call, planned);
  };
  int most = tried({});
  ASSERT_GT(most, 0) << "nothing that could get lost";
  for (int apply = 1; apply <= most; ++apply) {
    for (const Loss loss : losses) {
      most = std::max(most, tried({{apply, loss}}));
      for (const Loss next : losses)
        most = std::max(most, tried({{apply, loss}, {apply + 1, next}}));
    }
    if (HasFailure()) return;  // One kind of trouble at a time.
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, StoredAnswers, ::testing::ValuesIn(calls), [](const auto& tested) {
  std::string name;
  for (const char* c = tested.param.name; *c != '\0'; ++c) {
    const bool first = c == tested.param.name || c[-1] == ' ' || c[-1] == '_';
    if (*c == ' ' || *c == '_') continue;
    name += first ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c;
  }
  return name;
});

}  // namespace
}  // namespace tenure::stored

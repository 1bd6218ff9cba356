// The shapes of workflow code that docs/workflows.md calls safe with g++, each with values that
// notice when they are copied from, assigned to or destroyed while they do not live.
#include "tenure/detail/await_shapes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): the test is one thread.
std::set<const void*> living;
int mistakes = 0;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

class Watched {
 public:
  Watched(std::string text = "") : text_(std::move(text)) { born(); }  // NOLINT(*-explicit-*)
  Watched(const Watched& other) : text_(other.read()) { born(); }
  Watched(Watched&& other) noexcept : text_(other.read()) { born(); }
  Watched& operator=(const Watched& other) {
    text_ = other.read();
    return *this;
  }
  Watched& operator=(Watched&& other) noexcept {
    text_ = other.read();
    return *this;
  }
  ~Watched() {
    if (living.erase(this) == 0) ++mistakes;
  }
  [[nodiscard]] std::string read() const {
    if (living.contains(this)) return text_;
    ++mistakes;
    return {};
  }
  friend void to_json(nlohmann::json& json, const Watched& value) { json = value.read(); }
  friend void from_json(const nlohmann::json& json, Watched& value) {
    value = Watched{json.get<std::string>()};
  }

 private:
  void born() {
    if (!living.insert(this).second) ++mistakes;
  }
  std::string text_;
};

struct Pair {
  Watched first;
  Watched second;
};
void to_json(nlohmann::json& json, const Pair& pair) {
  json = nlohmann::json::array({pair.first, pair.second});
}
void from_json(const nlohmann::json& json, Pair& pair) {
  pair.first = json.at(0).get<Watched>();
  pair.second = json.at(1).get<Watched>();
}

std::string joined(Pair pair) { return pair.first.read() + pair.second.read(); }
Watched echo(Watched value) { return value; }
int refuse(Watched value) { throw std::runtime_error(value.read()); }

Flow<std::string> part(Context& ctx, Watched value) {
  co_await ctx.sleep(1s);
  co_return value.read();
}

Flow<std::string> arguments(Context& ctx) {
  const Pair pair{.first = {"a"}, .second = {"b"}};
  std::string all = co_await ctx.run("variable", joined, pair);
  const Watched made = co_await ctx.run("constructed", echo, Watched{"c"});
  all += made.read();
  const Step step{.name = "step", .retry = {.max_attempts = 2, .base = 1s, .never_for = {"x"}}};
  try {
    co_await ctx.run(step, refuse, made);
  } catch (const StepFailed& failed) {
    all += failed.info().message;
  }
  all += co_await part(ctx, made);
  all += co_await part(ctx, Watched{"d"});
  auto later = part(ctx, Watched{"e"});
  all += co_await std::move(later);
  co_return all;
}

Flow<std::string> closures(Context& ctx) {
  const Watched value{"a"};
  const auto owning = [value](Context& c) -> Flow<std::string> {
    const Watched inside = co_await c.run("owning", echo, value);
    co_return inside.read();
  };
  const auto [left, right] =
      co_await ctx.all(owning, [&](Context& c) -> Flow<std::string> {  // By reference: safe here.
        const Watched inside = co_await c.run("referring", echo, value);
        co_return inside.read() + "b";
      });
  const auto slow = [value](Context& c) -> Flow<std::string> {
    co_await c.sleep(1h);
    co_return value.read();
  };
  const auto won = co_await ctx.race(slow, owning);
  const auto body = [value](Context& c, FlowHold /*hold*/) -> Flow<std::string> {
    co_return co_await part(c, value);
  };
  const std::string locked = co_await ctx.with_lock(Path::of("shared", ctx.id()), body);
  const std::string shielded = co_await ctx.shielded(owning);
  const auto never = [value] { return value.read() != "a"; };
  const bool held = co_await ctx.wait_until(never, 1s);
  const std::vector several(2, owning);
  const std::vector<std::string> each = co_await ctx.all(several);
  co_return left + right + std::get<1>(won) + locked + shielded + (held ? "!" : "") + each.at(1);
}

Flow<std::string> slots(Context& ctx) {
  const auto slot = ctx.state.workflow<Pair>("pair");
  const Pair pair{.first = {"a"}, .second = {"b"}};
  co_await slot.set(pair);
  const auto swap = [](const std::optional<Pair>& old) {
    return Pair{.first = old->second, .second = old->first};
  };
  const Pair swapped = co_await slot.update(swap);
  const DurableMutex mutex;
  const auto lock = ctx.state.workflow<LockRecord>("lock");
  const LockCall call{.holder = ctx.id(), .now = ctx.now()};
  const Acquisition answer = co_await mutex.try_acquire(lock, call);
  co_await mutex.release(lock, call);
  co_return joined(swapped) + (answer.acquired ? "!" : "");
}

std::string result_of(std::size_t resident, Flow<std::string> (*program)(Context&)) {
  test::Engine engine{{.resident = resident, .partitions = 1}};
  engine.define("program", program);
  const test::Run run = engine.start("program");
  engine.advance(1min);
  return run.result<std::string>();
}

TEST(AwaitShapes, ThatAreSafeWithEveryCompiler) {
  for (const std::size_t resident : {100U, 0U}) {
    EXPECT_EQ(result_of(resident, arguments), "abcccde");
    EXPECT_EQ(result_of(resident, closures), "aabaaaa");
    EXPECT_EQ(result_of(resident, slots), "ba!");
  }
  EXPECT_EQ(mistakes, 0);
  EXPECT_TRUE(living.empty());
}

// What the compiler gets wrong is rejected, and only by that compiler.
using Owning = decltype([value = Watched{}] { return value.read(); });
static_assert(detail::is_safe_to_await<const Step&>);
static_assert(detail::is_safe_to_await<Pair&>);
static_assert(detail::is_safe_to_await<Step> != detail::miscompiles_temporaries);
static_assert(detail::is_safe_to_await<Pair> != detail::miscompiles_temporaries);
static_assert(detail::is_safe_to_await<Owning> != detail::miscompiles_temporaries);
static_assert(detail::is_safe_to_await<decltype([] {})>);

}  // namespace
}  // namespace tenure

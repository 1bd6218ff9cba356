// Files of histories, replayed by a program of the user's.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tenure/flow_replay.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {
namespace {

int one() { return 1; }
Flow<int> first_version(Context& ctx) { co_return co_await ctx.run("old", one); }
Flow<int> second_version(Context& ctx) { co_return co_await ctx.run("new", one); }

TEST(ReplayMain, SaysWhichHistoriesFit) {
  const kit::TemporaryDirectory directory;
  test::Engine production;
  production.define("order", first_version);
  production.start({.id = "a"}, "order");
  const std::string history = (directory / "a.json").string();
  std::ofstream{history} << production.engine().export_history("a").json();
  const std::string broken = (directory / "broken.json").string();
  std::ofstream{broken} << "{}";

  const auto replayed = [&](auto function, std::vector<std::string> files) {
    test::Engine ci;
    ci.define("order", function);
    std::ostringstream out;
    const int status = replay_files(ci.engine(), files, out);
    std::string text = out.str();
    for (std::size_t at = text.find(directory.path()); at != std::string::npos;
         at = text.find(directory.path())) {
      text.erase(at, directory.path().string().size() + 1);
    }
    return std::to_string(status) + " " + text.substr(0, text.find("does not fit"));
  };
  EXPECT_EQ(replayed(first_version, {history, history}), "0 a.json: fits\na.json: fits\n");
  EXPECT_EQ(replayed(second_version, {history}),
            "1 a.json: entry 0: workflow 'a' of type 'order' ");
  EXPECT_EQ(replayed(first_version, {(directory / "none").string()}),
            "2 none: cannot be read: give a file that 'tenure flow export' printed\n");
  EXPECT_EQ(replayed(first_version, {broken}).substr(0, 31), "2 broken.json: is not a history");
  EXPECT_EQ(replayed(first_version, {}),
            "2 no history given: name files that 'tenure flow export' printed\n");
}

}  // namespace
}  // namespace tenure

// What names share: the registry, within one binary. tests/names has real programs and plug-ins.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenure/name.hpp"

namespace tenure {
namespace {

using detail::NameRecord;

std::optional<NameInfo> find(std::string_view name) {
  for (const NameInfo& info : names()) {
    if (info.name == name) return info;
  }
  return std::nullopt;
}

// A definition as another library would have it.
class Definition {
 public:
  explicit Definition(NameRecord record) : record_(record) { detail::enroll(record_); }
  ~Definition() { detail::withdraw(record_); }
  Definition(const Definition&) = delete;
  Definition(Definition&&) = delete;
  Definition& operator=(const Definition&) = delete;
  Definition& operator=(Definition&&) = delete;

  static NameRecord at(const char* file, std::uint32_t line, std::uint32_t column,
                       std::uint32_t compiler = 0) {
    return {.text = "shelf",
            .size = 5,
            .file = file,
            .line = line,
            .column = column,
            .compiler = compiler};
  }

 private:
  NameRecord record_;
};

TEST(Registry, ListsNamesWithTheirPlaces) {
  const Name listed{"listed"};
  const auto here = std::source_location::current();
  const NameInfo info = find("listed").value();
  EXPECT_EQ(info.file, here.file_name());
  EXPECT_EQ(info.line, here.line() - 1);
  EXPECT_GT(info.column, 0U);
  EXPECT_EQ(info.definitions, 1U);
  const std::vector<NameInfo> all = names();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &NameInfo::name));
}

TEST(Registry, ForgetsANameThatIsGone) {
  {
    const Name brief{"brief"};
  }
  EXPECT_FALSE(find("brief").has_value());
  const Name brief{"brief"};
  EXPECT_TRUE(find("brief").has_value());
}

TEST(Registry, CountsTheSameDefinition) {
  const Definition program{Definition::at("/build/a/shelf.hpp", 4, 20)};
  {
    const Definition plugin{Definition::at("../b/shelf.hpp", 4, 20)};
    EXPECT_EQ(find("shelf").value(), (NameInfo{.name = "shelf",
                                               .file = "/build/a/shelf.hpp",
                                               .line = 4,
                                               .column = 20,
                                               .definitions = 2}));
    const Definition other_compiler{Definition::at("shelf.hpp", 4, 31, 1)};
    EXPECT_EQ(find("shelf").value().definitions, 3U);
  }
  EXPECT_EQ(find("shelf").value().definitions, 1U);
}

TEST(Registry, KeepsTheNameUntilTheLastDefinitionIsGone) {
  std::optional<Definition> first;
  first.emplace(Definition::at("/a/shelf.hpp", 4, 20));
  const Definition second{Definition::at("/b/shelf.hpp", 4, 20)};
  first.reset();
  EXPECT_EQ(find("shelf").value().file, "/b/shelf.hpp");
}

TEST(RegistryDeathTest, EndsTheProgramOnAnotherDefinition) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto aborts = testing::KilledBySignal(SIGABRT);
  const Definition first{Definition::at("/a/shelf.hpp", 4, 20)};
  EXPECT_EXIT(Definition{Definition::at("/a/shelf.hpp", 5, 20)}, aborts,
              "^tenure: the name \"shelf\" is defined twice:\n"
              "  /a/shelf.hpp:4:20\n  /a/shelf.hpp:5:20\n");
  EXPECT_EXIT(Definition{Definition::at("/a/shelf.hpp", 4, 21)}, aborts, "shelf.hpp:4:21\n");
  EXPECT_EXIT(Definition{Definition::at("/a/book_shelf.hpp", 4, 20)}, aborts, "book_shelf.hpp:4");
  EXPECT_EXIT(Definition{Definition::at("shelf.hpp", 5, 20, 1)}, aborts, "  shelf.hpp:5:20\n");
  EXPECT_EXIT(Name{"shelf"}, aborts, "registry_test.cpp:");
}

// Goal: registering from many threads loses nothing and mixes nothing up. Method: each of four
// threads defines and drops its own name and one that all share, and reads the list.
TEST(Registry, IsThreadSafe) {
  std::atomic<int> wrong = 0;
  const auto turns = [&wrong](const char* text) {
    for (int turn = 0; turn < 500; ++turn) {
      const Definition common{Definition::at("shelf.hpp", 4, 20)};
      const Definition own{
          {.text = text, .size = 1, .file = "own.cpp", .line = 1, .column = 1, .compiler = 0}};
      const auto info = find({text, 1});
      if (!info || info->definitions != 1 || !find("shelf")) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const char* text : {"1", "2", "3", "4"}) threads.emplace_back(turns, text);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(find("shelf").has_value());
}

// Goal: a child has its parent's names and can define more, even if another thread of the parent
// was registering a name. Method: forks while a thread does nothing else.
TEST(Registry, ServesAForkedChild) {
  const Name parent{"parent"};
  std::jthread busy{[](const std::stop_token& stop) {
    while (!stop.stop_requested()) const Definition turn{Definition::at("busy.cpp", 1, 1)};
  }};
  for (int turn = 0; turn < 200; ++turn) {
    const pid_t child = ::fork();  // A bare fork: it is what is tested.
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(20);  // A child that waits for its parent's lock would wait for ever.
      NameRecord record{.text = "child", .size = 5, .file = "child.cpp", .line = 1};
      detail::enroll(record);
      detail::withdraw(record);
      detail::enroll(record);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  }
  EXPECT_FALSE(find("child").has_value());
}

}  // namespace
}  // namespace tenure

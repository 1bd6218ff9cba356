// any_space_test.hpp: the tests of lock semantics run in every kind of space alike. Those that need
// a server are run apart, by TENURE_TEST_SPACES=postgres or etcd: the server is started once. So is
// "sharded", a space over one shard, so that all claims of a request have the same home.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenure/shards.hpp"
#include "tenure/space.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {

// Waits until so many tickets wait: the test goes on when the others are in line.
inline void await_waiters(const Space& space, std::size_t count,
                          std::source_location where = std::source_location::current()) {
  const auto waiting = [&space] {
    const std::vector<TicketInfo> infos = space.inspect();
    return static_cast<std::size_t>(std::ranges::count(infos, false, &TicketInfo::granted));
  };
  kit::until([&] { return waiting() == count; }, where);
}

// Waits until the space has so many tickets: on a server, a thread of the space removes the ticket
// of a request that was cancelled while it was being made.
inline void await_tickets(const Space& space, std::size_t count,
                          std::source_location where = std::source_location::current()) {
  kit::until([&] { return space.inspect().size() == count; }, where);
}

// "1 holds book, 2 waits at 1 for 1": inspection as one line, tickets numbered from 1.
inline std::string told(const Space& space) {
  std::string line;
  const std::vector<TicketInfo> infos = space.inspect();
  const auto rank = [&](Token number) {
    std::size_t i = 0;
    while (infos[i].ticket.number != number) ++i;
    return std::to_string(i + 1);
  };
  for (const TicketInfo& info : infos) {
    if (!line.empty()) line += ", ";
    line += rank(info.ticket.number) + (info.granted ? " holds" : " waits for");
    for (const Claim& claim : info.ticket.claims) line += " " + claim.text();
    if (info.granted) continue;
    line += " at " + std::to_string(info.position) + " behind";
    for (const Token blocker : info.blocked_by) line += " " + rank(blocker);
  }
  return line;
}

// Parametrised by what stands before the colon of a URL.
class AnySpace : public ::testing::TestWithParam<std::string_view> {
 public:
  // A new space each time.
  [[nodiscard]] std::string new_url() {
    const std::string kind{GetParam()};
    if (kind == "postgres") return schemas_.emplace_back(std::make_unique<kit::Schema>())->url();
    if (kind == "etcd") return kit::Etcd::instance().url(kit::new_prefix());
    if (kind == "sqlite")
      return "sqlite:" + (directory_ / (std::to_string(++files_) + ".db")).string();
    if (kind == "roots") return "memory:by-root";
    if (kind == "sharded") return new_sharded_url();
    return kind + ":";
  }
  [[nodiscard]] Space open_new() { return open(new_url()); }
  [[nodiscard]] bool is_local() const { return GetParam() == "local"; }
  [[nodiscard]] bool is_server() const { return GetParam() == "postgres" || GetParam() == "etcd"; }
  // A server may still have to hear of requests that were given up: their tickets come and go.
  void expect_only_the_holder(const Space& space) const {
    const std::string expected = "1 holds book";
    if (is_server()) {
      kit::until([&] { return told(space) == expected; });
    } else {
      EXPECT_EQ(told(space), expected);
    }
  }
  // So many rounds in memory; fewer where each is a file, a schema or a prefix.
  [[nodiscard]] int rounds(int many) const {
    return is_local() || GetParam() == "memory" || GetParam() == "roots" ? many : many / 20;
  }

 private:
  [[nodiscard]] std::string new_sharded_url() {
    const std::filesystem::path list = directory_ / (std::to_string(++files_) + ".shards");
    std::ofstream{list} << "one sqlite:" << list.string() << ".db\n";
    const std::string url = "sharded:" + list.string();
    set_shards(url, {"one"});
    return url;
  }

  kit::TemporaryDirectory directory_;
  int files_ = 0;
  std::vector<std::unique_ptr<kit::Schema>> schemas_;
};

inline std::vector<std::string_view> all_spaces() {
  const char* const chosen = std::getenv("TENURE_TEST_SPACES");  // NOLINT(concurrency-mt-unsafe)
  if (chosen != nullptr) return {chosen};
  return {"local", "memory", "roots", "sqlite"};
}
inline std::vector<std::string_view> server_spaces() {
  std::vector<std::string_view> spaces = all_spaces();
  std::erase_if(spaces, [](std::string_view kind) { return kind != "postgres" && kind != "etcd"; });
  return spaces;
}
#define TENURE_IN_ALL_SPACES(suite)                                      \
  INSTANTIATE_TEST_SUITE_P(In, suite, ::testing::ValuesIn(all_spaces()), \
                           [](const auto& kind) { return std::string{kind.param}; })

}  // namespace tenure

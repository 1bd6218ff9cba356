// witness.hpp: what finds two holders at once, and SQLite files of a case.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/ticket.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::museum {

using kit::Line;
using kit::lock_client;
using kit::Process;
using kit::Shared;
using Processes = std::vector<std::unique_ptr<Process>>;

// Waits for the end of all; each must end with status 0.
void expect_success(Processes& processes);

// Catches two who are in at once, in two ways that know nothing of each other: a count in shared
// memory, and a file that only one can make. A process that dies inside leaves both behind: the
// test calls `died`.
class Witness {
 public:
  explicit Witness(std::filesystem::path marker) : marker_(std::move(marker)) {}
  // True: nobody else was in, and the token is larger than all before it.
  [[nodiscard]] bool enter(Token token);
  [[nodiscard]] bool leave();
  void died() noexcept;
  [[nodiscard]] std::uint64_t entered() const noexcept { return state_->entered.load(); }

 private:
  struct State {
    std::atomic<int> inside = 0;
    std::atomic<std::uint64_t> entered = 0;
    std::atomic<std::uint64_t> last = 0;
  };
  const std::filesystem::path marker_;
  const Shared<State> state_;
};

// A SQLite file of its own. It goes when all that was done with it is over, and the threads of the
// library that did it have ended: the next case can fork without company.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] std::string url() const { return "sqlite:" + path().string(); }
  [[nodiscard]] std::filesystem::path path() const { return directory_.path() / "museum.db"; }
  [[nodiscard]] std::filesystem::path beside(std::string_view name) const {
    return directory_.path() / name;
  }

 private:
  kit::TemporaryDirectory directory_;
};

}  // namespace tenure::museum

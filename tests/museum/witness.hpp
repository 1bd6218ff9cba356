// witness.hpp: detects two holders at once; SQLite files for a case.
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

// Waits until all have ended; each must end with status 0.
void expect_success(Processes& processes);

// Detects two processes inside at once, in two independent ways: a count in shared memory, and a
// file that only one process can create. A process that dies inside leaves both behind: the test
// then calls died().
class Witness {
 public:
  explicit Witness(std::filesystem::path marker) : marker_(std::move(marker)) {}
  // True: no other process was inside, and the token is larger than all before it.
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

// A SQLite file for one case. Its destructor waits until everything is closed and the library's
// threads have ended, so that the next case can fork a single-threaded process.
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

// answers.hpp: what other threads have to tell the thread of the loop: grants of claims and their
// loss, and answers of HTTP servers.
//
// Shared with whoever answers, because an answer may come after the runner is gone.
//
// Thread safety: all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "net/http_client.hpp"
#include "pipeline/plan.hpp"
#include "process/descriptor.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"

namespace tenure::pipeline {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

// The claims of a task: all of them, and no error, or none.
struct ClaimAnswer {
  Index task = no_task;
  std::vector<Hold> holds{};
  std::string error{};
};

struct HttpAnswer {
  std::uint64_t question = 0;
  net::HttpResult result{};
};

// Claims in one space, granted together.
struct ClaimSet {
  Locker locker;
  std::vector<Claim> claims{};
};

// NOLINTEND(readability-redundant-member-init)

class Answers {
 public:
  Answers();

  // Readable when there is an answer.
  [[nodiscard]] int descriptor() const noexcept { return wake_.get(); }
  void put(ClaimAnswer answer);
  void put(HttpAnswer answer);
  void put_lost(Index task);  // One of its claims.
  struct Taken {
    std::vector<ClaimAnswer> claims;
    std::vector<HttpAnswer> http;
    std::vector<Index> lost;
  };
  [[nodiscard]] Taken take();

 private:
  void wake() const;

  process::Descriptor wake_;
  std::mutex mutex_;
  Taken waiting_;
};

// Asks for the sets one after another; the answer comes when the task has all of them. The order of
// sets must be the same for all tasks: then no two of them wait for each other.
void ask_for_claims(std::shared_ptr<Answers> answers, std::vector<ClaimSet> sets,
                    std::stop_token stop, Index task);

}  // namespace tenure::pipeline

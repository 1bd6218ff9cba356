// fleet.hpp: processes on clients' machines that lock, hold and log what they do, as tests/stress
// has it; and what is done to them.
//
// A lease can end while its holder lives, so a hold counts as certain only while its holder had not
// been told that it is lost: each `until` in a log is a moment at which lost() was still silent. It
// is what a program goes by that looks at lost() before each step, so two that are certain at once
// are a violation, without any margin.
//
// Thread safety: none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/museum/process.hpp"
#include "tests/stress/event.hpp"

namespace tenure::cluster {

class Fleet {
 public:
  struct Options {
    std::string url;
    std::string directory;  // Of the logs.
    std::uint64_t seed = 0;
  };
  // One process a client's machine.
  Fleet(const Cluster& cluster, Options options);

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] std::uint64_t grants() const { return grants_->load(); }

  void note(const std::string& what, const std::string& name) const;
  void kill(std::size_t member);  // And another one begins there.
  void stop(std::size_t member);
  void go_on(std::size_t member);
  // Tells all to end and waits until they have. What is wrong with the way one did, or nothing.
  [[nodiscard]] std::string end();

 private:
  struct Member {
    std::unique_ptr<museum::Process> process;
    std::string name;
    bool stopped = false;
  };
  void start(std::size_t member);

  museum::Shared<std::atomic<std::uint64_t>> grants_;
  const Cluster& cluster_;
  const Options options_;
  stress::Log log_;
  std::vector<Member> members_;
  std::uint64_t started_ = 0;
};

}  // namespace tenure::cluster

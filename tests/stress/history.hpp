// history.hpp: all logs of a run, request by request.
//
// A hold is certain only for a part of the time in which it was real: from the clock reading after
// the grant to the one before the release; at most until just before a SIGKILL was sent, an
// eviction was started, or its deadline. Every judgement uses only that part, so every violation
// found has really happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenure/ticket.hpp"
#include "tests/stress/event.hpp"

namespace tenure::stress {

struct Narrowing {
  std::int64_t time = 0;
  std::vector<Claim> claims{};
};

struct Asked {
  std::size_t worker = 0;  // Index in History::workers.
  unsigned thread = 0;
  std::uint64_t request = 0;
  std::int64_t asked = 0;
  std::string way;
  std::uint64_t held = 0;  // What the thread held already.
  std::int64_t max_hold = 0;
  std::vector<Claim> claims;
  std::optional<std::int64_t> granted;
  Token token;
  std::optional<std::int64_t> until;
  std::vector<Narrowing> narrowings;
  std::optional<std::int64_t> lost;
  std::optional<std::int64_t> leaving;
  std::optional<std::int64_t> left;
  bool was_held = false;  // As release() returned.
  std::string way_out;
  std::optional<std::int64_t> refused;
  std::string why;
};

struct Process {
  std::string name;
  std::optional<std::int64_t> killed;  // Just before the signal was sent.
  bool ended = false;                  // By itself, as requested.
};

struct Pause {  // Of one process.
  std::int64_t from = 0;
  std::int64_t to = 0;
};

struct History {
  std::vector<Process> workers;
  std::vector<Asked> requests;
  std::vector<Pause> pauses;
  // By token: when an eviction was first about to start.
  std::map<std::uint64_t, std::int64_t> evictions;
  std::vector<std::string> faults;  // Inconsistent lines.
  // When the store, or the connection to it, failed.
  std::vector<std::int64_t> outages;
  std::size_t events = 0;

  void add_worker(const std::string& name, std::istream& log);
  // TIME start|kill|stop|continue|end|fault NAME
  void add_driver(std::istream& log);

  // Until when it certainly held; before `granted`: not certain at any time.
  [[nodiscard]] std::int64_t certain_end(const Asked& one) const;
  // When its thread continued, or died.
  [[nodiscard]] std::int64_t over(const Asked& one) const;
  [[nodiscard]] std::string name(const Asked& one) const;

 private:
  void take(std::size_t worker, Event event, Asked& request);
  [[nodiscard]] Process& worker(const std::string& name);
};

// All of *.log in a directory; the driver's own is driver.log.
[[nodiscard]] History read_history(const std::string& directory);

}  // namespace tenure::stress

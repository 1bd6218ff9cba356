// request.hpp: a transaction as the parameters of a call, and a call's result as an outcome.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/common/post_queue.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/wire.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

// PostgreSQL's index takes keys of at most about 2,700 bytes.
inline constexpr std::size_t max_key_size = 2'600;
// A message of PostgreSQL's has at most one gigabyte, and text forms of it are larger.
inline constexpr std::size_t max_request_size = std::size_t{256} << 20U;

// What all writes of a transaction come to: no key is in it twice.
struct NetWrites {
  std::vector<std::string_view> removes;  // Made first: a key may be removed and then put.
  std::vector<const Write*> puts;
  std::vector<const Write*> appends;
};
[[nodiscard]] NetWrites net_writes(const std::vector<Write>& writes);

// Throws BadRequest for keys or values that are too long.
void check_size(const Txn& txn);

// For look(), where nothing is written, or change().
[[nodiscard]] Params params_of(const Txn& txn);
// Of change_all(); none of them reads anything.
[[nodiscard]] Params params_of(std::span<const stores::Posting> postings);
// Where a range ends: behind every key, if need be.
[[nodiscard]] std::string_view end_of(const Range& range);
// A lost machine loses its holders' tickets with it, but a server has its holders elsewhere: only
// what takes entries away may be lost in a crash.
[[nodiscard]] bool is_durable(const Txn& txn);
// What they return.
struct Answer {
  Outcome outcome;
  std::int64_t clock_ns = 0;   // Zero: it does not say.
  bool by_batch = false;       // Nothing was put but what the one write says.
  bool nothing_there = false;  // In what was read, whatever a range leaves out.
};
[[nodiscard]] Answer answer_of(const Txn& txn, const Result& result);
// From what take() returns: five arrays.
void fill_reads(const Txn& txn, const std::vector<std::string_view>& taken, Outcome& outcome);

}  // namespace tenure::postgres

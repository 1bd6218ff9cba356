// request.hpp: a transaction as the parameters of a call, and the result of a call as an outcome.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/common/post_queue.hpp"
#include "store/postgres/buckets.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/wire.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

// PostgreSQL's index accepts keys of at most about 2,700 bytes.
inline constexpr std::size_t max_key_size = 2'600;
// A message of PostgreSQL has at most one gigabyte, and its text form is larger.
inline constexpr std::size_t max_request_size = std::size_t{256} << 20U;

// The net effect of all writes of a transaction: each key occurs once.
struct NetWrites {
  std::vector<std::string_view> removes;  // Made first: a key may be removed and then put.
  std::vector<const Write*> puts;
  std::vector<const Write*> appends;
};
[[nodiscard]] NetWrites net_writes(const std::vector<Write>& writes);

// Throws BadRequest for keys or values that are too long.
void check_size(const Txn& txn);

// For look(), which reads in one order, and for change().
[[nodiscard]] Params look_params(const Txn& txn, int bucket);
[[nodiscard]] Params change_params(const Txn& txn, const Buckets& buckets);
// For change_all(). None of the transactions reads.
[[nodiscard]] Params params_of(std::span<const stores::Posting> postings, const Buckets& buckets);
// The end of a range; a key larger than every other if the range is open.
[[nodiscard]] std::string_view end_of(const Range& range);
// If a machine is lost, the tickets of its holders may be lost with it. The holders of a server's
// tickets are elsewhere, so only removes may be lost in a crash of the server.
[[nodiscard]] bool is_durable(const Txn& txn);
// The result of look(), change() or a batch.
struct Answer {
  Outcome outcome;
  std::int64_t clock_ns = 0;  // Zero: unknown.
  bool by_batch = false;      // Nothing was put except the one write of the batch.
  // All ranges were empty, including the entries that `before` excludes.
  bool nothing_there = false;
};
[[nodiscard]] Answer answer_of(const Txn& txn, const Result& result);
// From the five arrays that take() returns.
void fill_reads(const Txn& txn, const std::vector<std::string_view>& taken, Outcome& outcome);

}  // namespace tenure::postgres

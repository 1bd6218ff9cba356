// bench_load.hpp: the clients of `tenure bench`, and the memory that all processes measure into.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "options.hpp"

namespace tenure::cli {

// Counts times in buckets with a relative width of 1/32: percentiles within 3 %, in memory of a
// fixed size.
class Histogram {
 public:
  void add(std::chrono::nanoseconds time) noexcept;
  void merge(const Histogram& other) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::chrono::nanoseconds most() const noexcept {
    return std::chrono::nanoseconds{most_};
  }
  // The time within which this fraction (0.99) was done.
  [[nodiscard]] std::chrono::nanoseconds percentile(double part) const noexcept;

 private:
  static constexpr unsigned fine_bits = 5;
  static std::size_t bucket_of(std::uint64_t time) noexcept;
  static std::uint64_t middle_of(std::size_t bucket) noexcept;

  std::array<std::uint64_t, std::size_t{64} << fine_bits> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t most_ = 0;
};

// In memory that all processes share. One client writes its own part, and the parent reads it when
// the process has ended.
struct ClientFigures {
  std::uint64_t operations = 0;
  Histogram lock;      // From the call to the grant.
  Histogram hand_off;  // From the holder's release to the grant, for requests that waited.
};

struct BenchMemory {
  // When each path was last released: CLOCK_MONOTONIC, in nanoseconds.
  std::span<std::atomic<std::int64_t>> released;
  std::span<ClientFigures> clients;
  std::atomic<std::int64_t>* end = nullptr;  // When to stop; set before `go` is closed.
};

// One process of clients [first, last). Says that it is ready on `ready`, begins when `go` ends.
// Returns the exit status; an error has been printed.
int bench_process(const BenchOptions& options, const std::string& url, const BenchMemory& memory,
                  std::size_t first, std::size_t last, int ready, int go);

}  // namespace tenure::cli

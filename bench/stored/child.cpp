#include "bench/stored/child.hpp"

#include <unistd.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/program.hpp"

namespace tenure::bench::stored {
namespace {

// Far longer than any measurement.
constexpr std::chrono::minutes patience{2};

}  // namespace

Child::Child(std::size_t core, const kit::Process::Body& body)
    : process_([&](const Line& line) {
        try {
          pin_to_core(core);
          body(line);
        } catch (const std::exception&) {
          ::kill(::getppid(), SIGTERM);
          throw;
        }
      }) {
  process_.line().limit(patience);
}

Words Child::hear() {
  std::optional<Words> words = process_.line().next();
  if (!words) throw std::runtime_error("a process of the benchmark ended before it answered");
  return *std::move(words);
}

}  // namespace tenure::bench::stored

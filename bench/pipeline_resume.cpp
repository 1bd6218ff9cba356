// `tenure pipeline resume` of a run that is done but for one task: how long until that one starts?
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/pipeline_questions.hpp"
#include "bench/ratio.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench {
namespace {

// All tasks do nothing; the last one notes when it started, and fails.
void write_manifest(const std::filesystem::path& file, std::size_t count) {
  std::ofstream out{file};
  out << "jobs = 2\n";
  for (std::size_t i = 1; i < count; ++i) out << "[task.t" << i << "]\nrun = [\"true\"]\n";
  out << "[task.last]\nrun = \"date +%s%N >began; exit 1\"\n";
}

void pipeline(const std::filesystem::path& directory, const std::string& action) {
  kit::run(
      {"sh", "-c",
       "cd \"$0\" && XDG_STATE_HOME=$0 \"$1\" pipeline $2 --keep-going release.toml >log 2>&1; "
       "test $? = 1 || { cat log; exit 2; }",
       directory.string(), TENURE_PROGRAM, action});
}

}  // namespace

void ask_pipeline_resume(Report& report) {
  const std::size_t count = report.effort().of(5'000, 20);
  const kit::TemporaryDirectory directory;
  write_manifest(directory.path() / "release.toml", count);
  pipeline(directory.path(), "run");
  Samples milliseconds;
  for (std::size_t round = report.effort().of(5, 1); round > 0; --round) {
    const auto start = std::chrono::system_clock::now().time_since_epoch();
    pipeline(directory.path(), "resume");
    std::int64_t began = 0;
    std::ifstream{directory.path() / "began"} >> began;
    const std::chrono::duration<double, std::milli> took = std::chrono::nanoseconds{began} - start;
    milliseconds.push_back(took.count());
  }
  report.figure("resume, until the first start", spread_of(milliseconds).median, "ms",
                at_most(500));
}

}  // namespace tenure::bench

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <vector>

#include "tenure/flow_replay.hpp"

namespace tenure {
namespace {

constexpr int all_fit = 0;
constexpr int one_differs = 1;
constexpr int one_unreadable = 2;

std::string all_of(std::istream& in) {
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}

// Nothing: it cannot be read.
std::optional<std::string> content_of(const std::string& file) {
  if (file == "-") return all_of(std::cin);
  std::ifstream in{file, std::ios::binary};
  if (!in) return std::nullopt;
  std::string text = all_of(in);
  if (in.bad()) return std::nullopt;
  return text;
}

int replay_file(const Engine& engine, const std::string& file, std::ostream& out) {
  const std::optional<std::string> text = content_of(file);
  if (!text) {
    out << file << ": cannot be read: give a file that 'tenure flow export' printed\n";
    return one_unreadable;
  }
  try {
    const ReplayReport report = engine.replay(FlowHistory::parse(*text));
    out << file << ": "
        << (report.fits() ? "fits"
                          : "entry " + std::to_string(report.order()) + ": " + report.difference())
        << '\n';
    return report.fits() ? all_fit : one_differs;
  } catch (const BadRequest& error) {
    out << file << ": is not a history: " << error.what() << '\n';
    return one_unreadable;
  }
}

}  // namespace

int replay_files(const Engine& engine, std::span<const std::string> files, std::ostream& out) {
  if (files.empty()) {
    out << "no history given: name files that 'tenure flow export' printed\n";
    return one_unreadable;
  }
  int worst = all_fit;
  for (const std::string& file : files) worst = std::max(worst, replay_file(engine, file, out));
  return worst;
}

int replay_main(const Engine& engine, int argc, const char* const* argv) {
  const std::span arguments{argv, static_cast<std::size_t>(std::max(argc, 0))};
  std::vector<std::string> files;
  for (const char* const argument : arguments.subspan(arguments.empty() ? 0 : 1)) {
    files.emplace_back(argument);
  }
  return replay_files(engine, files, std::cout);
}

}  // namespace tenure

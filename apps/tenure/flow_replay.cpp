#include "flow_replay.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "scratch.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/flow_history.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t histories_of_one_run = 200;
constexpr std::size_t longest_name = 100;

struct Exported {
  std::string id;
  std::string file;
};

// Letters, digits and a few marks of the id, and a number in front: ids may have any bytes.
Exported export_one(const flow::Queries& queries, const std::string& id,
                    const std::string& directory, std::size_t number) {
  std::string name = id.substr(0, longest_name);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  Exported out{.id = id, .file = fmt::format("{}/{}-{}.json", directory, number, name)};
  std::ofstream file{out.file, std::ios::binary};
  file << queries.stored_history(id).json();
  file.close();
  if (!file) throw Error("the history of '" + id + "' cannot be written to " + out.file);
  return out;
}

struct Finished {
  int status = 0;
  std::string output;
};

std::string all_from(int descriptor) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t size = ::read(descriptor, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

Finished run_program(const std::string& program, const std::vector<Exported>& histories) {
  std::vector<std::string> words{program};
  for (const Exported& one : histories) words.push_back(one.file);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  process::Pipe output;
  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output.write.get(), STDOUT_FILENO);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, program.c_str(), &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw Error("the program '" + program +
                "' cannot be run: " + std::generic_category().message(error));
  }
  output.write = process::Descriptor{};
  Finished out{.status = 0, .output = all_from(output.read.get())};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    throw Error(
        fmt::format("the program '{}' was ended by signal {} while it replayed {} and {} "
                    "others",
                    program, WTERMSIG(status), histories.front().id, histories.size() - 1));
  }
  out.status = WEXITSTATUS(status);
  return out;
}

// replay_main() prints "FILE: TEXT", where the text may have several lines. The text of each.
std::vector<std::string> texts_of(const std::string& output,
                                  const std::vector<Exported>& histories) {
  std::vector<std::string> texts(histories.size());
  std::size_t from = 0;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const std::string begin = histories[i].file + ": ";
    const std::size_t at = output.find(begin, from);
    if (at == std::string::npos) continue;
    std::size_t end = output.size();
    if (i + 1 < histories.size()) {
      end = std::min(end, output.find(histories[i + 1].file + ": ", at));
    }
    texts[i] = output.substr(at + begin.size(), end - at - begin.size());
    while (texts[i].ends_with('\n')) texts[i].pop_back();
    from = end;
  }
  return texts;
}

class Replays {
 public:
  Replays(const FlowCommand& options, const flow::Queries& queries)
      : options_(options), queries_(queries) {}

  void add(const std::string& id) {
    histories_.push_back(export_one(queries_, id, scratch_.path(), ++count_));
    if (histories_.size() == histories_of_one_run) run();
  }
  int finish() {
    if (!histories_.empty()) run();
    if (options_.json) {
      fmt::print("{}\n", Json{{"program", printable(options_.program)},
                              {"replayed", count_},
                              {"histories", found_}}
                             .dump(2));
    } else {
      fmt::print(stderr, "tenure: {} {} replayed\n", count_, count_ == 1 ? "history" : "histories");
    }
    return worst_;
  }

 private:
  void run() {
    const Finished finished = run_program(options_.program, histories_);
    worst_ = std::max(worst_, finished.status);
    const std::vector<std::string> texts = texts_of(finished.output, histories_);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string& id = histories_[i].id;
      if (texts[i].empty()) {
        throw Error("the program '" + options_.program + "' said nothing of workflow '" + id +
                    "': its main() must end with tenure::replay_main()");
      }
      if (options_.json) {
        found_.push_back({{"id", printable(id)},
                          {"fits", texts[i].substr(0, texts[i].find('\n')) == "fits"},
                          {"text", printable(texts[i])}});
      } else {
        fmt::print("{}: {}\n", printable(id), texts[i]);
      }
      std::filesystem::remove(histories_[i].file);
    }
    histories_.clear();
  }

  const FlowCommand& options_;
  const flow::Queries& queries_;
  const Scratch scratch_;
  std::vector<Exported> histories_;
  Json found_ = Json::array();
  std::size_t count_ = 0;
  int worst_ = exit_ok;
};

}  // namespace

int flow_replay(const FlowCommand& options, Store& store, const flow::Queries& queries) {
  Replays replays{options, queries};
  if (!options.id.empty()) {
    replays.add(options.id);
    return replays.finish();
  }
  FlowFilter filter = options.filter;
  if (options.since) filter.created_from = detail::saturating_sub(store.now(), *options.since);
  for (;;) {
    const std::vector<FlowInfo> page = queries.list(filter);
    for (const FlowInfo& info : page) replays.add(info.id);
    if (page.size() < filter.limit) return replays.finish();
    filter.after = page.back().id;
  }
}

}  // namespace tenure::cli

#include "pipeline/commands/run_state.hpp"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::pipeline {
namespace {

constexpr std::string_view run_prefix = "run/";
constexpr std::string_view time_prefix = "time/";
constexpr std::size_t id_size = 6;

std::int64_t number_in(std::string_view text) {
  std::int64_t value = 0;
  const std::size_t space = text.find(' ');
  if (space != std::string_view::npos) {
    std::from_chars(text.data() + space + 1, text.data() + text.size(), value);
  }
  return value;
}

TaskRecord record_of(std::string_view text) {
  const std::int64_t number = number_in(text);
  if (text.starts_with("done")) {
    return {.state = TaskRecord::State::done, .milliseconds = number};
  }
  const auto attempt = static_cast<unsigned>(number);
  if (text.starts_with("failed")) return {.state = TaskRecord::State::failed, .attempt = attempt};
  if (text.starts_with("skipped")) return {.state = TaskRecord::State::skipped};
  return {.state = TaskRecord::State::started, .attempt = attempt};
}

std::string text_of(const RunInfo& info) {
  nlohmann::json json{{"manifest", info.manifest}, {"began", info.began}, {"tasks", info.texts}};
  if (info.ended) {
    json["ended"] = *info.ended;
    json["result"] = info.result;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<Entry> read(Store& store, Range range) {
  Txn txn;
  txn.reads.push_back(std::move(range));
  return std::move(store.apply(txn).reads.front());
}

}  // namespace

std::optional<RunInfo> RunState::newest() const {
  // Keys of tasks are longer than those of runs: the last key of all belongs to the newest run.
  const std::vector<Entry> last = read(*store_, Range::prefix(std::string{run_prefix}).last());
  if (last.empty()) return std::nullopt;
  const std::string id = last.front().key.substr(run_prefix.size(), id_size);
  const std::vector<Entry> found = read(*store_, Range::key(std::string{run_prefix} + id));
  if (found.empty()) return std::nullopt;
  RunInfo info{.id = id};
  try {
    const nlohmann::json json = nlohmann::json::parse(found.front().value);
    info.manifest = json.at("manifest").get<std::string>();
    info.began = json.at("began").get<std::int64_t>();
    info.texts = json.at("tasks").get<std::map<std::string, std::string>>();
    if (json.contains("ended")) {
      info.ended = json.at("ended").get<std::int64_t>();
      info.result = json.at("result").get<std::string>();
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("the record of run {} cannot be read ({}): start a new run", id, error.what()));
  }
  return info;
}

std::map<std::string, TaskRecord> RunState::tasks(std::string_view run) const {
  const std::string prefix = fmt::format("{}{}/task/", run_prefix, run);
  std::map<std::string, TaskRecord> out;
  for (const Entry& entry : read(*store_, Range::prefix(prefix))) {
    out.emplace(entry.key.substr(prefix.size()), record_of(entry.value));
  }
  return out;
}

std::map<std::string, double> RunState::times() const {
  std::map<std::string, double> out;
  for (const Entry& entry : read(*store_, Range::prefix(std::string{time_prefix}))) {
    out.emplace(entry.key.substr(time_prefix.size()),
                static_cast<double>(number_in(" " + entry.value)));
  }
  return out;
}

void RunState::begin(RunInfo& info) {
  std::uint64_t number = 1;
  if (const std::optional<RunInfo> before = newest()) {
    number = static_cast<std::uint64_t>(number_in(" " + before->id)) + 1;
  }
  info.id = fmt::format("{:06}", number);
  run_ = info.id;
  Txn txn;
  txn.writes.push_back(Write::put(std::string{run_prefix} + info.id, text_of(info)));
  txn.durability = Durability::full;
  store_->apply(txn);
}

void RunState::finish(RunInfo& info) {
  noted_.writes.push_back(Write::put(std::string{run_prefix} + info.id, text_of(info)));
  commit();
}

std::string RunState::key(const std::string& task) const {
  return fmt::format("{}{}/task/{}", run_prefix, run_, task);
}

void RunState::start(const std::string& task, unsigned attempt, bool once) {
  noted_.writes.push_back(Write::put(key(task), fmt::format("started {}", attempt)));
  if (once) noted_.durability = Durability::full;
}

void RunState::end(const std::string& task, TaskEnd end, unsigned attempt,
                   std::chrono::milliseconds took) {
  switch (end) {
    case TaskEnd::done:
      noted_.writes.push_back(Write::put(key(task), fmt::format("done {}", took.count())));
      if (took.count() >= 0) {
        noted_.writes.push_back(
            Write::put(std::string{time_prefix} + task, std::to_string(took.count())));
      }
      break;
    case TaskEnd::failed:
      noted_.writes.push_back(Write::put(key(task), fmt::format("failed {}", attempt)));
      break;
    case TaskEnd::skipped: noted_.writes.push_back(Write::put(key(task), "skipped")); break;
    case TaskEnd::blocked:
    case TaskEnd::cancelled: break;  // As if they had not been asked for: a resumed run does that.
  }
}

void RunState::commit() {
  if (noted_.writes.empty()) return;
  const Txn txn = std::exchange(noted_, {});
  store_->apply(txn);
  ++commits_;
}

}  // namespace tenure::pipeline

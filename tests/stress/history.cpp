#include "tests/stress/history.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace tenure::stress {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

}  // namespace

Process& History::worker(const std::string& name) {
  const auto found = std::ranges::find(workers, name, &Process::name);
  if (found != workers.end()) return *found;
  return workers.emplace_back(Process{.name = name, .killed = {}});
}

void History::add_worker(const std::string& name, std::istream& log) {
  const auto index = static_cast<std::size_t>(&worker(name) - workers.data());
  std::map<std::pair<unsigned, std::uint64_t>, std::size_t> known;
  std::string line;
  while (std::getline(log, line)) {
    if (log.eof()) break;  // No end of line: the process died while it wrote this line.
    ++events;
    std::optional<Event> event = parse_event(line);
    if (!event.has_value()) {
      faults.push_back(name + ": no event: " + line);
      continue;
    }
    if (event->kind == Event::Kind::evicting) {
      std::int64_t& first = evictions.try_emplace(event->a, event->time).first->second;
      first = std::min(first, event->time);
      continue;
    }
    const auto [at, added] = known.try_emplace({event->thread, event->request}, requests.size());
    if (added != (event->kind == Event::Kind::asked)) {
      faults.push_back(name + ": out of order: " + line);
      if (added) known.erase(at);
      continue;
    }
    if (added) requests.emplace_back();
    take(index, *std::move(event), requests[at->second]);
  }
}

void History::take(std::size_t worker, Event event, Asked& request) {
  switch (event.kind) {
    case Event::Kind::asked:
      request.worker = worker;
      request.thread = event.thread;
      request.request = event.request;
      request.asked = event.time;
      request.way = std::move(event.word);
      request.held = event.a;
      request.max_hold = static_cast<std::int64_t>(event.b);
      request.claims = std::move(event.claims);
      break;
    case Event::Kind::granted:
      request.granted = event.time;
      request.token = Token{event.a};
      break;
    case Event::Kind::until: request.until = static_cast<std::int64_t>(event.a); break;
    case Event::Kind::narrowed:
      request.narrowings.push_back({.time = event.time, .claims = std::move(event.claims)});
      break;
    case Event::Kind::lost: request.lost = event.time; break;
    case Event::Kind::leaving:
      request.leaving = event.time;
      request.way_out = std::move(event.word);
      break;
    case Event::Kind::left:
      request.left = event.time;
      request.was_held = event.a != 0;
      break;
    case Event::Kind::refused:
      request.refused = event.time;
      request.why = std::move(event.word);
      break;
    case Event::Kind::evicting: break;  // Belongs to no request.
  }
}

void History::add_driver(std::istream& log) {
  std::map<std::string, std::int64_t> stopped;
  const auto go_on = [&](const std::string& name, std::int64_t time) {
    const auto found = stopped.find(name);
    if (found == stopped.end()) return;
    pauses.push_back({.from = found->second, .to = time});
    stopped.erase(found);
  };
  std::int64_t time = 0;
  std::string what;
  std::string name;
  while (log >> time >> what >> name) {
    if (what == "fault") {
      outages.push_back(time);
      continue;
    }
    Process& one = worker(name);
    if (what == "stop") stopped.emplace(name, time);
    if (what == "continue" || what == "kill") go_on(name, time);
    if (what == "kill") one.killed = time;
    if (what == "end") one.ended = true;
  }
  for (const auto& [last, since] : stopped) pauses.push_back({.from = since, .to = never});
}

std::int64_t History::certain_end(const Asked& one) const {
  std::int64_t end = one.leaving.value_or(never);
  end = std::min(end, workers[one.worker].killed.value_or(never));
  if (const auto evicted = evictions.find(one.token.value); evicted != evictions.end()) {
    end = std::min(end, evicted->second);
  }
  // A deadline begins at the grant, which comes after the request.
  if (one.max_hold != 0) end = std::min(end, one.until.value_or(one.asked + one.max_hold));
  return end;
}

std::int64_t History::over(const Asked& one) const {
  return std::min(one.left.value_or(one.refused.value_or(never)),
                  workers[one.worker].killed.value_or(never));
}

std::string History::name(const Asked& one) const {
  std::string out = workers[one.worker].name + " thread " + std::to_string(one.thread) +
                    " request " + std::to_string(one.request) + " (" + one.way;
  for (const Claim& claim : one.claims) out += ' ' + text(claim);
  out += ", asked " + std::to_string(one.asked);
  if (one.granted.has_value()) {
    out += ", token " + std::to_string(one.token.value) + ", held from " +
           std::to_string(*one.granted) + " to " + std::to_string(certain_end(one));
  }
  return out + ')';
}

History read_history(const std::string& directory) {
  History history;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{directory}) {
    if (entry.path().extension() == ".log") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    std::ifstream log{file};
    if (file.stem() == "driver") {
      history.add_driver(log);
    } else {
      history.add_worker(file.stem().string(), log);
    }
  }
  return history;
}

}  // namespace tenure::stress

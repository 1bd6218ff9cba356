#include "flow/schedules.hpp"

#include <algorithm>
#include <expected>
#include <optional>

#include "flow/core.hpp"
#include "flow/entry.hpp"

namespace tenure::flow {
namespace {

constexpr std::uint32_t schedule_page = 1000;

ScheduleState parsed(const Entry& entry) {
  std::expected<ScheduleState, std::string> state = decode_schedule(entry.value);
  if (!state) throw Error("schedule row '" + entry.key.substr(5) + "': " + state.error());
  return *std::move(state);
}

}  // namespace

std::pair<std::string, keys::Partition> Schedules::row_of(const std::string& id) const {
  std::string row = "s" + id;
  const keys::Partition partition = keys::partition_of(row, partitions_);
  return {std::move(row), partition};
}

bool Schedules::apply(const std::string& row, Guard guard, Write write) const {
  const keys::Partition partition = keys::partition_of(row, partitions_);
  Txn txn;
  txn.durability = durability_;
  txn.guards.push_back(std::move(guard));
  txn.writes.push_back(std::move(write));
  txn.writes.push_back(Write::append(
      keys::trigger_inbox(partition, 'c'),
      encode(Message{
          .kind = Message::Kind::trigger_changed, .workflow = row, .name = {}, .value = {}})));
  return store_->apply(txn).committed;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the key, and the id for the message.
Entry Schedules::read(const std::string& key, const std::string& id) const {
  Txn txn;
  txn.reads.push_back(Range::key(key));
  Outcome seen = store_->apply(txn);
  if (seen.reads.front().empty()) throw NoSuchSchedule("there is no schedule '" + id + "'");
  return std::move(seen.reads.front().front());
}

void Schedules::change(const std::string& id,
                       const std::function<bool(ScheduleState&)>& edit) const {
  const auto [row, partition] = row_of(id);
  const std::string key = keys::trigger(partition, row);
  while (true) {
    const Entry entry = read(key, id);
    ScheduleState state = parsed(entry);
    if (!edit(state)) return;
    if (apply(row, Guard::unchanged(key, entry.changed), Write::put(key, encode(state)))) return;
  }
}

void Schedules::put(ScheduleOptions options, std::string_view type, std::string input) const {
  check(options);
  const Instant now = store_->now();
  const auto [row, partition] = row_of(options.id);
  const std::string key = keys::trigger(partition, row);
  ScheduleState fresh;
  fresh.options = std::move(options);
  fresh.type = type;
  fresh.input = std::move(input);
  fresh.created = now;
  fresh.last = now;
  fresh.paused = fresh.options.paused;
  if (apply(row, Guard::absent(key), Write::put(key, encode(fresh)))) return;
  change(fresh.options.id, [&](ScheduleState& state) {
    if (state.options == fresh.options && state.type == fresh.type && state.input == fresh.input) {
      return false;
    }
    state.options = fresh.options;
    state.type = fresh.type;
    state.input = fresh.input;
    state.last = std::max(state.last, now);
    return true;
  });
}

std::vector<ScheduleInfo> Schedules::list() const {
  std::vector<ScheduleInfo> all;
  Range range = keys::triggers(0).first(schedule_page);
  range.to = prefix_end(range.from.substr(0, 2));  // Of all partitions.
  while (true) {
    Txn read;
    read.reads.push_back(range);
    const std::vector<Entry> found = std::move(store_->apply(read).reads.front());
    for (const Entry& entry : found) {
      if (entry.key.substr(4).starts_with('s')) all.push_back(info_of(parsed(entry)));
    }
    if (found.size() < schedule_page) break;
    range.from = found.back().key + '\0';
  }
  std::ranges::sort(all, {}, [](const ScheduleInfo& info) { return info.options.id; });
  return all;
}

ScheduleInfo Schedules::info(const std::string& id) const {
  std::optional<ScheduleInfo> found;
  change(id, [&found](const ScheduleState& state) {
    found = info_of(state);
    return false;
  });
  return *std::move(found);  // NOLINT(bugprone-unchecked-optional-access): change() throws else.
}

void Schedules::pause(const std::string& id) const {
  change(id, [](ScheduleState& state) { return !std::exchange(state.paused, true); });
}

void Schedules::resume(const std::string& id) const {
  const Instant now = store_->now();
  change(id, [now](ScheduleState& state) {
    if (!state.paused) return false;
    state.paused = false;
    state.last = std::max(state.last, now);
    return true;
  });
}

void Schedules::trigger(const std::string& id) const {
  const Instant now = store_->now();
  change(id, [now, &id](ScheduleState& state) {
    if (state.triggered.size() >= max_triggered) {
      throw BadRequest("schedule '" + id + "' has been triggered " + std::to_string(max_triggered) +
                       " times, and no engine has acted on it: start one");
    }
    if (std::ranges::find(state.triggered, now) != state.triggered.end()) return false;
    state.triggered.push_back(now);
    return true;
  });
}

void Schedules::remove(const std::string& id) const {
  const auto [row, partition] = row_of(id);
  const std::string key = keys::trigger(partition, row);
  while (true) {
    const Entry entry = read(key, id);
    Txn txn;
    txn.durability = durability_;
    txn.guards.push_back(Guard::unchanged(key, entry.changed));
    txn.writes.push_back(Write::remove(key));
    if (const std::optional<Instant> timer = parsed(entry).timer) {
      txn.writes.push_back(Write::remove(keys::timer(
          {.partition = partition, .due = *timer, .id = row, .key = keys::trigger_timer})));
    }
    if (store_->apply(txn).committed) return;
  }
}

}  // namespace tenure::flow

namespace tenure {

void Engine::put_schedule(ScheduleOptions options, std::string_view type, std::string input) {
  static_cast<void>(core_->check_start(type, input));
  core_->schedules().put(std::move(options), type, std::move(input));
}

std::vector<ScheduleInfo> Engine::schedules() { return core_->schedules().list(); }
ScheduleInfo Engine::schedule_info(const std::string& id) { return core_->schedules().info(id); }
void Engine::pause_schedule(const std::string& id) { core_->schedules().pause(id); }
void Engine::resume_schedule(const std::string& id) { core_->schedules().resume(id); }
void Engine::trigger_schedule(const std::string& id) { core_->schedules().trigger(id); }
void Engine::remove_schedule(const std::string& id) { core_->schedules().remove(id); }

}  // namespace tenure

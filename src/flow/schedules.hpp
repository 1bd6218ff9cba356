// schedules.hpp: the stored schedules, as engines and the command line change them.
//
// Nothing here fires: a change of a row tells the owner of its partition, which looks at it.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flow/keys.hpp"
#include "flow/schedule_rule.hpp"
#include "tenure/schedule.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

class Schedules {
 public:
  Schedules(Store& store, std::uint32_t partitions, Durability durability) noexcept
      : store_(&store), partitions_(partitions), durability_(durability) {}

  // Makes or changes it; the same one again changes nothing. Throws BadRequest.
  void put(ScheduleOptions options, std::string_view type, std::string input) const;
  [[nodiscard]] std::vector<ScheduleInfo> list() const;
  // These throw NoSuchSchedule.
  [[nodiscard]] ScheduleInfo info(const std::string& id) const;
  void pause(const std::string& id) const;
  void resume(const std::string& id) const;
  void trigger(const std::string& id) const;
  void remove(const std::string& id) const;

 private:
  [[nodiscard]] Entry read(const std::string& key, const std::string& id) const;
  // `edit` returns false where nothing is to be written.
  void change(const std::string& id, const std::function<bool(ScheduleState&)>& edit) const;
  [[nodiscard]] std::pair<std::string, keys::Partition> row_of(const std::string& id) const;
  // Makes the write and tells the owner; false: the guard failed.
  [[nodiscard]] bool apply(const std::string& row, Guard guard, Write write) const;

  Store* store_;
  std::uint32_t partitions_;
  Durability durability_;
};

}  // namespace tenure::flow

// queries.hpp: what the store knows about workflows, and messages to them.
//
// Nothing here runs a workflow or takes a partition. So a process that only reads or sends, such as
// the command line, leaves the work to the engines.
//
// Thread safety: all calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "flow/queues.hpp"
#include "tenure/flow.hpp"
#include "tenure/flow_history.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

class Queries {
 public:
  Queries(Store& store, std::uint32_t partitions) noexcept
      : store_(&store), partitions_(partitions) {}
  // The number that the first engine chose; null: no engine has used this store.
  [[nodiscard]] static std::optional<std::uint32_t> partitions_of(Store& store);

  // Throws NoSuchWorkflow.
  [[nodiscard]] FlowInfo info(const std::string& id) const;
  [[nodiscard]] std::vector<FlowInfo> list(const FlowFilter& filter) const;
  [[nodiscard]] std::vector<HistoryEntry> history(const std::string& id, std::uint32_t from,
                                                  std::size_t limit) const;
  // When what it sleeps for is due, the next first. Reads all timers of the partition.
  [[nodiscard]] std::vector<Instant> timers(const std::string& id) const;
  // All of it, as of one moment. Throws NoSuchWorkflow.
  [[nodiscard]] FlowHistory stored_history(const std::string& id) const;
  // A message with an id that was sent before is dropped. Throws NoSuchWorkflow, WorkflowEnded.
  // `record`: the revision of the workflow's record when it was last known to run, if it was; saves
  // a read.
  void send(const std::string& id, Message message, std::string_view message_id,
            Durability durability, Revision record = {}) const;
  // The first id of ID~2, ID~3, … that no workflow has.
  [[nodiscard]] std::string retry_id(const std::string& id) const;
  // Asks an engine to start the workflow again under that id; see Engine::retry(). Throws
  // NoSuchWorkflow, and BadRequest for one that runs or has completed.
  void send_retry(const std::string& id, const std::string& as, Durability durability) const;

 private:
  [[nodiscard]] keys::Partition partition_of(std::string_view id) const noexcept {
    return keys::partition_of(id, partitions_);
  }
  [[nodiscard]] Entry record_of(const std::string& id) const;
  // Entries of queues whose positions are asked for, and whose they are: queue, entry, index.
  using Queued = std::map<std::string, std::map<std::string, std::size_t>>;
  static void note_queued(const Entry& entry, std::size_t index, Queued& queued);
  void find_positions(const Queued& queued, std::vector<FlowInfo>& infos) const;

  Store* store_;
  std::uint32_t partitions_;
};

// Throws Error for a record that cannot be read.
[[nodiscard]] Record parsed_record(const Entry& entry);
[[nodiscard]] FlowInfo info_of(std::string id, const Record& record, Instant now);

}  // namespace tenure::flow

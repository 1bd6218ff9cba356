// queues.hpp: starts that wait for a place of a concurrency limit, in the order in which they came.
//
//   state row | means                          | a start            | an end
//   ----------+--------------------------------+--------------------+-------------------
//   absent    | open: nobody waits             | takes a free place | frees its place
//   present   | queueing: all places are taken | joins the queue    | gives its place to
//             |                                |                    | the first in line
//
// A start that finds no place puts the row, guarded on the presence of every place; an end that
// finds nobody in line removes it, guarded on an empty queue. So a free place and a queue never
// stay beside each other, and nothing that happens between two flips writes the row.
//
// A queued workflow is a record, an entry of the queue and a seat: a numbered key, as places are,
// of which there are as many as the queue may be long. The entry's key ends with the revision of
// the record. Admitting the first in line costs the same however many wait.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

class Queues {
 public:
  // What an end does with its place.
  struct Handover {
    std::string places;   // The limit; empty: none.
    std::string entry;    // Of the queue, that gets the place; empty: nobody does.
    std::string seat;     // That is free again.
    bool removes = true;  // The place is free.
  };

  // Whether starts were seen to queue there; a guess.
  [[nodiscard]] bool queueing(const std::string& places);
  void saw(const std::string& places, bool queueing);

  // Adds to an end's transaction what happens to its place. Reads the store where starts queue.
  [[nodiscard]] Handover give_back(Store& store, std::uint32_t partitions, const std::string& place,
                                   Txn& txn);
  // The transaction was committed, or not. Always called once.
  void done(const Handover& handover, bool committed);

 private:
  [[nodiscard]] bool reserve(const std::string& places, const std::string& entry);
  [[nodiscard]] std::uint32_t reserved(const std::string& places);

  base::Mutex mutex_;
  std::set<std::string> queueing_ TENURE_GUARDED_BY(mutex_);
  // Entries that ends of this engine are about to admit, by places.
  std::map<std::string, std::set<std::string>> reserved_ TENURE_GUARDED_BY(mutex_);
};

// An entry of a queue as bytes: the seat's number and the workflow's id.
struct QueueEntry {
  std::uint32_t seat = 0;
  std::string id;
};
[[nodiscard]] std::string encode(const QueueEntry& entry);
[[nodiscard]] QueueEntry decode_queue_entry(std::string_view bytes);
// Of a record that is queued: the key of its entry.
[[nodiscard]] std::string queue_key(const Record& record, Revision changed);

}  // namespace tenure::flow

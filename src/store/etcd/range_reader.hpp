// range_reader.hpp: turns the ranges of an answer into entries, and reads on where a range is not
// complete: its limit was used up by entries that do not count, or it began at a hint and found too
// little. Further pages are read at the revision of the transaction, so all reads are one snapshot.
//
// Thread safety: none; a reader belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/form.hpp"
#include "store/etcd/key_cache.hpp"
#include "store/etcd/plan.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class RangeReader {
 public:
  // False: the range can't be read at that revision any more.
  using Fetch = std::function<bool(const pb::RangeRequest&, pb::RangeResponse&)>;
  RangeReader(const Plan& plan, KeyCache& keys, Fetch fetch)
      : plan_(plan), keys_(keys), fetch_(std::move(fetch)) {}

  // The entries of each read. `revision`: of the apply; zero if it wrote nothing, so that all
  // stamps are before it. Nothing: a fetch failed.
  [[nodiscard]] std::optional<std::vector<std::vector<Entry>>> read(const Answer& answer,
                                                                    Revision revision);

 private:
  [[nodiscard]] bool read_one(std::size_t read, const pb::RangeResponse* found,
                              std::int64_t by_etcd, Revision revision, std::vector<Entry>& entries);
  [[nodiscard]] pb::RangeRequest rest_of(std::size_t read, const pb::RangeResponse& found,
                                         bool narrow) const;
  // False: as many entries as were asked for.
  [[nodiscard]] bool take(const pb::RangeResponse& found, const Range& range, std::uint32_t& skip,
                          std::vector<Entry>& entries);

  const Plan& plan_;
  KeyCache& keys_;
  const Fetch fetch_;
};

}  // namespace tenure::etcd

#include "flow/rates.hpp"

#include <algorithm>

#include "flow/keys.hpp"
#include "tenure/codec.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

RateTurn take_rate(Store& store, const std::string& slots, const RateLimitOptions& limit,
                   Instant wanted) {
  const auto read = [&store](const std::string& key) {
    Txn txn;
    txn.reads.push_back(Range::key(key));
    return std::move(store.apply(txn).reads.front());
  };
  const std::vector<Entry> counter = read(slots);
  std::uint64_t count = 0;
  RateTurn turn;
  turn.starts = wanted;
  turn.guard = Guard::absent(slots);
  if (!counter.empty()) {
    count = Codec<std::uint64_t>::decode(counter.front().value);
    turn.guard = Guard::unchanged(slots, counter.front().changed);
  }
  const std::string slot = keys::place(slots, static_cast<std::uint32_t>(count % limit.max));
  if (const std::vector<Entry> last = read(slot); !last.empty()) {
    const Instant before{std::chrono::nanoseconds{Codec<std::int64_t>::decode(last.front().value)}};
    turn.starts = std::max(wanted, detail::saturating_add(before, limit.per));
  }
  turn.refused = turn.starts > detail::saturating_add(wanted, limit.wait);
  turn.counter = Write::put(slots, std::to_string(count + 1));
  turn.slot = Write::put(slot, std::to_string(turn.starts.time_since_epoch().count()));
  return turn;
}

}  // namespace tenure::flow

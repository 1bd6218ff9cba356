#include "store/etcd/range_reader.hpp"

#include <string>
#include <string_view>

namespace tenure::etcd {
namespace {

constexpr std::int64_t page = 256;

}  // namespace

std::optional<std::vector<std::vector<Entry>>> RangeReader::read(const Answer& answer,
                                                                 Revision revision) {
  const std::vector<Range>& ranges = plan_.txn().reads;
  std::vector<std::vector<Entry>> all(ranges.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!plan_.reads_anything(i)) continue;
    const pb::RangeResponse* const found = answer.reads[next++];
    if (found == nullptr) continue;
    if (!read_one(i, found, answer.by_etcd, revision, all[i])) return std::nullopt;
  }
  return all;
}

bool RangeReader::read_one(std::size_t read, const pb::RangeResponse* found, std::int64_t by_etcd,
                           Revision revision, std::vector<Entry>& entries) {
  Range range = plan_.txn().reads[read];
  if (range.before == this_apply) range.before = revision;
  std::uint32_t skip = range.skip;
  pb::RangeResponse more;
  const bool hinted = !plan_.hint(read).empty();
  bool narrow = hinted;  // Only the part behind the hint was read so far.
  while (take(*found, range, skip, entries) && (found->more() || narrow)) {
    pb::RangeRequest request = rest_of(read, *found, narrow);
    narrow = narrow && found->more();
    request.set_revision(by_etcd);
    pb::RangeResponse next;
    if (!fetch_(request, next)) return false;
    more.Swap(&next);
    found = &more;
  }
  // The whole range was read: remembered keys behind the last entry are gone.
  if (hinted && !narrow) {
    keys_.erase_from(entries.empty() ? range.from : entries.front().key + '\0', range);
  }
  return true;
}

// The part of a read that comes behind `found`; if the part behind the hint is complete, the part
// before the hint.
pb::RangeRequest RangeReader::rest_of(std::size_t read, const pb::RangeResponse& found,
                                      bool narrow) const {
  pb::RangeRequest request = plan_.range_request(read);
  request.set_limit(page);
  const std::string hint = plan_.layout().key(plan_.hint(read));
  if (!found.more()) {
    request.set_range_end(hint);
    return request;
  }
  const std::string& last = found.kvs(found.kvs_size() - 1).key();
  if (!plan_.txn().reads[read].reverse) {
    request.set_key(last + '\0');
    return request;
  }
  request.set_range_end(last);
  if (narrow) request.set_key(hint);
  return request;
}

bool RangeReader::take(const pb::RangeResponse& found, const Range& range, std::uint32_t& skip,
                       std::vector<Entry>& entries) {
  for (const pb::KeyValue& kv : found.kvs()) {
    if (range.limit != 0 && entries.size() == range.limit) return false;
    const std::string_view key = plan_.layout().entry_at(kv.key()).value_or("");
    if (range.before != Revision{} && stamp_of(key) >= range.before) continue;
    if (skip > 0) {
      --skip;
      continue;
    }
    const Value value = parse_value(kv.value());
    entries.push_back({.key = std::string{key},
                       .value = std::string{value.bytes},
                       .created = value.created,
                       .changed = value.changed});
    keys_.put(key, {.mod_revision = kv.mod_revision(), .created = value.created});
  }
  return range.limit == 0 || entries.size() < range.limit;
}

}  // namespace tenure::etcd

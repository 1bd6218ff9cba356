// Entries, records, messages and windows of workflows as they may be in a store: any bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "flow/collect_rule.hpp"
#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/error.hpp"
#include "tenure/flow_history.hpp"

// What is read is written back as the same value.
template <class T>
void check(const std::expected<T, std::string>& read, auto decode) {
  if (!read) {
    if (read.error().empty()) std::abort();
    return;
  }
  const auto again = decode(tenure::flow::encode(*read));
  if (!again || *again != *read) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenure::flow;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  check(decode_entry(bytes), decode_entry);
  check(decode_record(bytes), decode_record);
  check(decode_message(bytes), decode_message);
  check(decode_collect(bytes), decode_collect);
  check(decode_call(bytes), decode_call);
  try {
    const auto call = tenure::detail::UpdateCall::parse(bytes);
    if (tenure::detail::UpdateCall::parse(call.text()).id != call.id) std::abort();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is refused.
  }
  try {
    const tenure::FlowHistory history = tenure::FlowHistory::parse(bytes);
    if (tenure::FlowHistory::parse(history.json()) != history) std::abort();
  } catch (const tenure::BadRequest&) {  // NOLINT(bugprone-empty-catch): it is refused.
  }
  if (const auto timer = keys::parse_timer(bytes)) {
    if (keys::timer(*timer).substr(2) != bytes.substr(2)) std::abort();
  }
  return 0;
}

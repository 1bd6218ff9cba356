// lock_client.hpp: a process that does what a test tells it with one space and one hold.
//
//   Process writer{lock_client(url)};
//   writer.tell("lock book");           // The client waits; the test goes on.
//   EXPECT_EQ(writer.hear(), "holds");  // Now it has it.
//
//   open URL TTL        opens the space with a session of TTL milliseconds; "ok"
//   close               closes the space, and releases what it holds; "ok"
//   lock CLAIM [OWNER]  "holds"; SIGINT ends the wait: "gave up"
//   try CLAIM           "holds" or "taken"
//   within CLAIM MS     the same, and waits up to MS milliseconds for it
//   limit NS            later requests have this max_hold; "ok"
//   renew, release      "yes" or "no"
//   downgrade CLAIM     "ok"
//   evict TOKEN [now]   "yes" or "no"
//   drop                drops the hold without waiting; "ok"
//   token               of the hold
//   key                 of the hold's own entry, in hexadecimal digits
//   is lost             whether lost() has fired: "yes" or "no"
//   until lost          waits until it has; "lost"
//   granted at          when the last request returned with the hold
//   lost at             when lost() fired; "never"
//   write KEY VALUE     with the hold's guard; "yes" or "no"
//   put KEY VALUE       without a guard; "yes"
//   read KEY            the value, or "none"
//   count [PATH]        how many tickets there are, of holders and waiters
//   waiting             how many tickets wait
//   now                 the store's clock, in nanoseconds
//   exit                the process ends
//
// A CLAIM is PATH, PATH:GROUP or PATH:GROUP:LIMIT. An exception is answered with "error: " and its
// text. Times are nanoseconds of CLOCK_BOOTTIME, which all processes share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tests/kit/process.hpp"

namespace tenure::kit {

// Further commands of a test: the answer, or null where it does not know the command.
using MoreCommands = std::function<std::optional<std::string>(const std::string& command)>;

// Opens its space by "open".
[[nodiscard]] Process::Body lock_client(MoreCommands more = {});
// Opens this space with its first command, with a session of an hour.
[[nodiscard]] Process::Body lock_client(std::string url);
// The same, in the store that `open` returns.
using OpenStore = std::function<std::shared_ptr<Store>()>;
[[nodiscard]] Process::Body lock_client(OpenStore open);

[[nodiscard]] Claim claim_of(std::string_view text);
[[nodiscard]] std::string hex(std::string_view bytes);  // As hexadecimal digits.

// The number that a client answered. Throws Error where it answered something else.
[[nodiscard]] std::size_t number_of(const std::string& answer);

}  // namespace tenure::kit

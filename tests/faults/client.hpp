// client.hpp: a process that does what it is told with one space of a store.
//
//   open URL TTL     the space, with a session of TTL milliseconds; "ok"
//   lock PATH        "holds"
//   try PATH         "holds" or "taken"
//   limit NS         requests from now on have this max_hold; "ok"
//   count PATH       how many tickets there are, of holders and waiters
//   token            the hold's
//   key              of the hold's own entry, in hexadecimal digits
//   renew, release   "yes" or "no"
//   drop             lets go without waiting; "ok"
//   is lost          whether lost() has fired: "yes" or "no"
//   until lost       waits for it; "lost"
//   write KEY VALUE  with the hold's guard; "yes" or "no"
//   put KEY VALUE    without; "yes"
//   read KEY         its value, or "none"
//   close            the space and everything in it; "ok"
// What throws is answered with "error: " and what it says.
#pragma once

#include <string>

#include "tests/faults/proxy.hpp"
#include "tests/museum/process.hpp"

namespace tenure::faults {

[[nodiscard]] museum::Process::Body client();

// Through the proxy or, by the server's own port, past it. Whatever stays unanswered for half a
// second is asked after.
[[nodiscard]] std::string url_at(int port, const std::string& schema);

}  // namespace tenure::faults

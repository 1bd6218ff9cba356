// client.hpp: a process that does what it is told with one space, and says when things happened.
//
//   open URL TTL     the space, with a session of TTL milliseconds; "ok"
//   lock PATH        "holds"
//   try PATH         "holds" or "taken"
//   token            the hold's
//   granted at       when the last call that asked returned with the hold
//   lost at          when lost() fired; "never": it has not
//   is lost          whether it has: "yes" or "no"
//   until lost       waits for it; when that was
//   release          "yes" or "no"
//   write KEY VALUE  with the hold's guard; "yes" or "no"
//   wall SECONDS     the wall clock of this process is set forward, or back; "ok"
//   close            the space and everything in it; "ok"
// What throws is answered with "error: " and what it says. Times are nanoseconds of CLOCK_BOOTTIME,
// which is one clock for all processes here.
#pragma once

#include "tests/museum/process.hpp"

namespace tenure::cluster {

[[nodiscard]] museum::Process::Body client();

}  // namespace tenure::cluster

// error.hpp: what Tenure throws. Every message says what happened, where, and what to do.
//
// Expected outcomes (a lock that was not free, text that does not parse) are values, not
// exceptions. All exceptions derive from tenure::Error, so one handler is enough for a caller that
// does not distinguish them. Errors of the caller that types cannot exclude (an empty request)
// throw too, and change nothing.
#pragma once

#include <stdexcept>

namespace tenure {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The arguments of the call are invalid, whatever other processes do: an empty request, the same
// path twice, a path that is too long, a downgrade that would ask for more.
class BadRequest : public Error {
 public:
  using Error::Error;
};

// The request would never be granted: it would wait for a ticket that its own owner keeps from
// being released. The message prints the cycle. No ticket was left behind.
class Deadlock : public Error {
 public:
  using Error::Error;
};

// A live claim on the same path and group has another limit. The message names both limits and both
// owners. No ticket was left behind.
class LimitMismatch : public Error {
 public:
  using Error::Error;
};

// The space was destroyed while the request waited. No ticket was left behind.
class Closed : public Error {
 public:
  using Error::Error;
};

// An operator removed the waiting request with Space::evict.
class Evicted : public Error {
 public:
  using Error::Error;
};

// The store considers this process dead, or was replaced: all of its holds and waits have ended.
// Open the space again.
class SessionLost : public Error {
 public:
  using Error::Error;
};

// A guard that the caller added to the call (TxnPart) does not hold. Nothing was changed: a request
// left no ticket behind, and a hold is as before.
class GuardFailed : public Error {
 public:
  using Error::Error;
};

// The key that keeps the request's ticket alive (Locker::anchored) is not in the store, or was
// removed while the request waited.
class AnchorLost : public Error {
 public:
  using Error::Error;
};

}  // namespace tenure

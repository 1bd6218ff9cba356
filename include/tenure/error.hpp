// error.hpp: what Tenure throws. Every message says what happened, where, and what to do.
//
// Expected outcomes (a lock that was not free, text that does not parse) are values, not thrown.
// What is thrown derives from tenure::Error, so one handler is enough for those who do not care
// which it was. Bugs of the caller that types cannot exclude (an empty request) throw too: they
// change nothing.
#pragma once

#include <stdexcept>

namespace tenure {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The arguments of the call can't be met, whatever the others do: an empty request, the same path
// twice, a path that is too long, a downgrade that would ask for more.
class BadRequest : public Error {
 public:
  using Error::Error;
};

// The request would never be granted: its owner holds what it would wait for. The message prints
// the cycle. Nothing was left behind.
class Deadlock : public Error {
 public:
  using Error::Error;
};

// A live claim on the same path and group has another limit. The message names both limits and both
// owners. Nothing was left behind.
class LimitMismatch : public Error {
 public:
  using Error::Error;
};

// The space was destroyed while the request waited. Nothing was left behind.
class Closed : public Error {
 public:
  using Error::Error;
};

// An operator removed the waiting request with Space::evict.
class Evicted : public Error {
 public:
  using Error::Error;
};

// The store holds this process for dead, or was replaced: nothing that it held or waited for counts
// any more. Open the space again.
class SessionLost : public Error {
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

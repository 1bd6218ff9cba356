// asio_test.hpp: what the tests of tenure/asio.hpp have in common.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <exception>
#include <utility>

#include "tenure/asio.hpp"
#include "tenure/tenure.hpp"

namespace tenure {

namespace asio = boost::asio;
using asio::awaitable;

inline const Path book = Path::of("book");
inline const Path film = Path::of("film");

template <class Error>
bool is(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
  return false;
}

inline bool is_aborted(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const boost::system::system_error& system) {
    return system.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
  return false;
}

// Keeps what an operation completed with.
struct Ending {
  int calls = 0;
  std::exception_ptr error;
  Hold hold;
};
struct StoreIn {
  Ending* outcome;
  void operator()(std::exception_ptr error, Hold hold) const {
    ++outcome->calls;
    outcome->error = std::move(error);
    outcome->hold = std::move(hold);
  }
};

class Asio : public testing::Test {
 protected:
  auto store(Ending& outcome) { return asio::bind_executor(io, StoreIn{&outcome}); }
  auto store(Ending& outcome, asio::cancellation_signal& signal) {
    return asio::bind_cancellation_slot(signal.slot(), store(outcome));
  }
  [[nodiscard]] std::size_t tickets() const { return space.inspect().size(); }

  Space space = open("local:");
  asio::io_context io;
};

inline awaitable<void> wait_for(const Space& space, std::exception_ptr& error) {
  try {
    const Hold hold = co_await space.async_lock(book);
  } catch (...) {
    error = std::current_exception();
  }
}

}  // namespace tenure

// A server that says nothing: a timeout or a stop bounds the whole call, an executor is not
// blocked, and what was sent leaves nothing behind. The stores' own timeouts are longer than any
// test, so a call that waits for one of them does not return.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/asio.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using kit::Proxy;

const Path book = Path::of("book");

class SilentServer : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    store_ = store(url_at(server_port()));
    near_.emplace(open(store_, session()));
    network_.emplace(server_port());
    far_.emplace(open(store(url_at(network_->port())), session()));
  }
  void TearDown() override {
    if (network_.has_value()) speak();
    far_.reset();
  }

  // Answers get lost, or the requests too.
  void fall_silent(bool requests_too) {
    network_->door(Proxy::Door::silent);
    network_->swallow(Proxy::Way::to_client);
    if (requests_too) network_->swallow(Proxy::Way::to_server);
  }
  void speak() {
    network_->door(Proxy::Door::open);
    network_->cut();
  }
  // The space that was cut off works again, removes what it gave up, and ends without a trace.
  void expect_nothing_left() {
    speak();
    for (bool works = false; !works;) {
      try {
        works = far_->lock(book).release();
      } catch (const StoreError&) {
        continue;  // By a connection that was cut.
      }
    }
    // A request that was given up may reach the server only now; its ticket is then removed.
    kit::until([this] { return near_->inspect().empty(); });
    far_.reset();
    kit::until([this] { return entries(std::string{session_prefix}) == 1; });
    // Nothing can come any more: an append needs its session.
    EXPECT_EQ(entries("\x01") + entries("\x02"), 0U);
    EXPECT_TRUE(near_->try_lock(book));
    far_.emplace(open(store(url_at(network_->port())), session()));
  }

  std::optional<Space> near_;  // Past the proxy.
  std::optional<Space> far_;

 private:
  [[nodiscard]] std::size_t entries(const std::string& prefix) {
    Txn txn;
    txn.reads = {Range::prefix(prefix)};
    return store_->apply(txn).reads.front().size();
  }
  // No fault here is longer than a lease.
  static SessionOptions session() { return {.label = {}, .ttl = 30min}; }
  [[nodiscard]] static int server_port() {
    return GetParam() == "etcd" ? kit::Etcd::instance().port() : kit::Postgres::instance().port();
  }
  [[nodiscard]] std::string url_at(int port) {
    if (GetParam() == "etcd") {
      return "etcd://127.0.0.1:" + std::to_string(port) + '/' + prefix_ + "?timeout=600s";
    }
    if (schema_ == nullptr) schema_ = std::make_unique<kit::Schema>();
    return schema_->url_at(port, "&connect_timeout=3600&tcp_user_timeout=3600000");
  }

  const std::string prefix_ = kit::new_prefix();
  std::unique_ptr<kit::Schema> schema_;
  std::shared_ptr<Store> store_;  // Past the proxy, too.
  std::optional<Proxy> network_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SilentServer);
INSTANTIATE_TEST_SUITE_P(In, SilentServer, ::testing::ValuesIn(server_spaces()),
                         [](const auto& kind) { return std::string{kind.param}; });

TEST_P(SilentServer, ATimeoutBoundsTheWholeCall) {
  for (const bool requests_too : {false, true}) {
    fall_silent(requests_too);
    EXPECT_FALSE(far_->try_lock_for(book, 100ms));
    EXPECT_FALSE(far_->try_lock_for(book, 0s));
    EXPECT_FALSE(far_->max_hold(1h).try_lock_until(book, std::chrono::steady_clock::time_point{}));
    EXPECT_FALSE(far_->try_lock_until(book, std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(far_->as("somebody").max_hold(1h).try_lock_for({book, Path::of("film")}, 1ms));
    expect_nothing_left();
  }
}

TEST_P(SilentServer, AStopEndsTheCall) {
  for (const bool requests_too : {false, true}) {
    std::stop_source stop;
    fall_silent(requests_too);
    const std::jthread stopper{[&] { stop.request_stop(); }};
    EXPECT_FALSE(far_->lock(book, stop.get_token()));
    expect_nothing_left();
  }
}

// A wait that had begun before.
TEST_P(SilentServer, AWaitIsGivenUp) {
  Hold hold = near_->lock(book);
  std::stop_source stop;
  std::jthread waiter{[&] { EXPECT_FALSE(far_->lock(book, stop.get_token())); }};
  while (near_->inspect().size() < 2) std::this_thread::yield();
  fall_silent(false);
  stop.request_stop();
  waiter.join();
  hold.release();
  expect_nothing_left();
}

base::Detached until_stopped(const Space& space, std::stop_token stop, bool& got,
                             std::latch& done) {
  got = (co_await space.async_lock(book, std::move(stop))).has_value();
  done.count_down();
}

TEST_P(SilentServer, ACoroutineIsNotKeptWaiting) {
  for (const bool requests_too : {false, true}) {
    fall_silent(requests_too);
    std::stop_source stop;
    bool got = true;
    std::latch done{1};
    until_stopped(*far_, stop.get_token(), got, done);  // Returns.
    stop.request_stop();
    done.wait();
    EXPECT_FALSE(got);
    expect_nothing_left();
  }
}

TEST_P(SilentServer, AnIoContextGoesOn) {
  for (const bool requests_too : {false, true}) {
    fall_silent(requests_too);
    asio::io_context io;
    asio::cancellation_signal cancel;
    bool other_ran = false;
    std::exception_ptr error;
    asio::post(io, [&] {
      far_->async_lock(
          book, asio::bind_cancellation_slot(
                    cancel.slot(), asio::bind_executor(io, [&](std::exception_ptr e, const Hold&) {
                      EXPECT_TRUE(other_ran);
                      error = std::move(e);
                    })));
    });
    asio::post(io, [&] {
      other_ran = true;
      cancel.emit(asio::cancellation_type::all);
    });
    io.run();
    EXPECT_THROW(std::rethrow_exception(error), boost::system::system_error);
    expect_nothing_left();
  }
}

// The context goes while the server has not answered.
TEST_P(SilentServer, AnIoContextThatGoesLeavesNothing) {
  fall_silent(false);
  {
    asio::io_context io;
    far_->async_lock(book, asio::bind_executor(
                               io, [](const std::exception_ptr&, const Hold&) { ADD_FAILURE(); }));
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace tenure

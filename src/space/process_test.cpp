// Every kind of space in processes that fork, and in one that can start no more threads. This
// program opens no space itself, so that its children may use gRPC.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/asio.hpp"
#include "tenure/await.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/no_threads.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/process.hpp"

namespace tenure {
namespace {

using kit::contains;
using kit::Line;
using kit::Process;

const Path of_parent = Path::of("parent");
const Path of_child = Path::of("child");
constexpr std::chrono::seconds patience{60};  // A child that hangs fails its test.

// What the work throws; "nothing" where it throws nothing.
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

std::string open_again(const std::string& url) {
  std::string said;
  const std::string error = error_of([&] {
    const Space space = open(url);
    const Hold own = space.lock(of_child);
    said = space.try_lock(of_parent).has_value() ? "locked both" : "locked its own";
  });
  return said.empty() ? error : said;
}

class ForkedSpace : public AnySpace {
 protected:
  // What a child says that its parent forks when it holds a lock.
  [[nodiscard]] static std::string in_child(const std::string& url,
                                            std::string (*work)(const std::string&, Space&,
                                                                Hold&)) {
    const Process parent{[&](const Line& line) {
      Space space = open(url);
      Hold hold = space.lock(of_parent);
      {
        const Process child{[&](const Line& to_parent) { to_parent.say(work(url, space, hold)); }};
        child.line().limit(patience);
        line.say(child.hear());
      }
      line.say(hold.release() ? "released" : "lost");
    }};
    parent.line().limit(2 * patience);
    std::string said = parent.hear();
    EXPECT_EQ(parent.hear(), "released") << "what the child did is nothing to its parent";
    return said;
  }
};

// gRPC can't be used in the child; everything else can be opened again.
TEST_P(ForkedSpace, AChildOpensTheSpaceAgainOrLearnsAtOnceThatItCannot) {
  const std::string said =
      in_child(new_url(), [](const std::string& url, Space&, Hold&) { return open_again(url); });
  if (GetParam() == "etcd") {
    EXPECT_TRUE(contains(said, "Fork before the first etcd: space is opened")) << said;
    EXPECT_TRUE(contains(said, "exec a new program")) << said;
  } else {
    const bool shared = GetParam() == "sqlite" || GetParam() == "postgres";
    EXPECT_EQ(said, shared ? "locked its own" : "locked both");
  }
}

TEST_P(ForkedSpace, AChildIsToldThatASpaceBelongsToItsParent) {
  const std::string said = in_child(new_url(), [](const std::string&, Space& space, Hold&) {
    return error_of([&] { static_cast<void>(space.try_lock(of_child)); });
  });
  EXPECT_TRUE(contains(said, "open it after fork(), in the process that uses it")) << said;
}

// Nor does it touch the store of its parent: it may have no thread that would do it.
TEST_P(ForkedSpace, AChildReleasesNothingAndIsToldSo) {
  const std::string said = in_child(new_url(), [](const std::string&, Space&, Hold& hold) {
    return error_of([&] {
      boost::asio::io_context io;
      bool held = true;
      hold.async_release(
          boost::asio::bind_executor(io, [&held](const std::exception_ptr& error, bool was_held) {
            if (error) std::rethrow_exception(error);
            held = was_held;
          }));
      io.poll();
      if (held) throw Error("not told that it held nothing");
    });
  });
  EXPECT_EQ(said, "nothing");
}

INSTANTIATE_TEST_SUITE_P(In, ForkedSpace,
                         ::testing::Values("local", "memory", "sqlite", "postgres", "etcd"),
                         [](const auto& kind) { return std::string{kind.param}; });

// A server that takes connections and says nothing.
class SilentServer {
 public:
  SilentServer() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    EXPECT_EQ(::bind(socket_, address, size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, address, &size), 0);
    port_ = ::ntohs(any.sin_port);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  ~SilentServer() { ::close(socket_); }

  [[nodiscard]] std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  // Throws: it is called in children too, where an expectation would be lost.
  void await_client() const {
    if (::accept(socket_, nullptr, nullptr) < 0) throw Error("accept() failed");
  }

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
};

// What a child says of opening `url` that is forked while a thread of its parent opens `silent`.
// That thread is not in the child, and what it had locked stays locked there.
std::string in_child_while_connecting(const SilentServer& server, const std::string& silent,
                                      const std::string& url) {
  const Process parent{[&](const Line& line) {
    std::thread{[&] { static_cast<void>(open(silent)); }}.detach();
    server.await_client();
    const Process child{[&](const Line& to_parent) { to_parent.say(open_again(url)); }};
    child.line().limit(patience);
    line.say(child.hear());
  }};
  parent.line().limit(2 * patience);
  return parent.hear();
}

TEST(ForkedSpaces, AChildOpensPostgresWhileItsParentConnects) {
  const kit::Schema schema;
  const SilentServer server;
  EXPECT_EQ(in_child_while_connecting(
                server, "postgres://" + server.endpoint() + "/p?connect_timeout=600", schema.url()),
            "locked both");
}

TEST(ForkedSpaces, AChildIsToldOfEtcdAtOnceWhileItsParentConnects) {
  const SilentServer server;
  const std::string url = "etcd://" + server.endpoint() + "/p?timeout=600s";
  const std::string said = in_child_while_connecting(server, url, url);
  EXPECT_TRUE(contains(said, "exec a new program")) << said;
}

// Ctrl-C ends a program that waits for a server.
TEST(InterruptedSpaces, ASignalEndsAProcessThatConnectsToEtcd) {
  const SilentServer server;
  const std::string url = "etcd://" + server.endpoint() + "/p?timeout=600s";
  Process client{[&](const Line&) {
    ::signal(SIGINT, SIG_DFL);  // A job in the background ignores it.
    static_cast<void>(open(url));
  }};
  server.await_client();
  client.signal(SIGINT);
  kit::until([&] { return !client.runs(); });  // Or the signal is blocked.
  EXPECT_EQ(client.exit_status(), 128 + SIGINT);
}

// --- tickets that outlive their process

// A process with one space and one hold that does what it is told.
Process anchor_client(const std::string& url) {
  return Process{[url](const Line& line) {
    const std::shared_ptr<Store> store = tenure::store(url);
    const Space space = open(store);
    const Path path = Path::of("book");
    Hold hold;
    while (const std::optional<std::string> order = line.hear()) {
      if (*order == "put" || *order == "remove") {
        Txn txn;
        txn.writes.push_back(*order == "put" ? Write::put("run/7", "") : Write::remove("run/7"));
        store->apply(txn);
        line.say("ok");
      } else if (*order == "lock" || *order == "anchored") {
        hold =
            *order == "lock" ? space.lock(path) : space.anchored("run/7").request_id(1).lock(path);
        line.say(std::to_string(hold.token().value));
      } else if (order->starts_with("find ")) {
        std::optional<Hold> found = space.find(Token{std::stoull(order->substr(5))});
        line.say(found.has_value() ? "found" : "none");
        if (found.has_value()) hold = *std::move(found);
      } else if (*order == "release") {
        line.say(hold.release() ? "yes" : "no");
      } else {  // Each ticket: whether it holds, and what it hangs on.
        std::string all = "tickets:";
        for (const TicketInfo& info : space.inspect()) {
          all +=
              (info.granted ? " holds" : " waits") + (info.anchor.empty() ? "" : "@" + info.anchor);
        }
        line.say(all);
      }
    }
  }};
}

class KilledClient : public AnySpace {};

TEST_P(KilledClient, LeavesItsAnchoredHoldToWhoeverFindsIt) {
  const std::string url = new_url();
  Process dying = anchor_client(url);
  const Process heir = anchor_client(url);
  ASSERT_EQ(dying.ask("put"), "ok");
  const std::string token = dying.ask("anchored");
  dying.kill(SIGKILL);
  EXPECT_EQ(heir.ask("look"), "tickets: holds@run/7");
  ASSERT_EQ(heir.ask("find " + token), "found");
  EXPECT_EQ(heir.ask("release"), "yes");
  EXPECT_EQ(heir.ask("look"), "tickets:");
  EXPECT_EQ(heir.ask("find " + token), "none");
}

TEST_P(KilledClient, KeepsItsPlaceWhileNobodyRuns) {
  const std::string url = new_url();
  Process dying = anchor_client(url);
  const Process holder = anchor_client(url);
  const Process behind = anchor_client(url);
  const Process heir = anchor_client(url);
  ASSERT_EQ(holder.ask("put"), "ok");
  ASSERT_NE(holder.ask("lock"), "");
  dying.tell("anchored");
  kit::until([&] { return heir.ask("look") == "tickets: holds waits@run/7"; });
  dying.kill(SIGKILL);
  behind.tell("lock");
  kit::until([&] { return heir.ask("look") == "tickets: holds waits@run/7 waits"; });
  EXPECT_EQ(holder.ask("release"), "yes");
  EXPECT_EQ(heir.ask("look"), "tickets: holds@run/7 waits");
  const std::string token = heir.ask("anchored");  // The same request, repeated.
  EXPECT_EQ(holder.ask("look"), "tickets: holds@run/7 waits");
  EXPECT_EQ(heir.ask("release"), "yes");
  EXPECT_LT(std::stoull(token), std::stoull(behind.hear()));
  EXPECT_EQ(behind.ask("release"), "yes");
}

TEST_P(KilledClient, LosesItsTicketWithTheAnchor) {
  const std::string url = new_url();
  Process dying = anchor_client(url);
  const Process behind = anchor_client(url);
  const Process other = anchor_client(url);
  ASSERT_EQ(dying.ask("put"), "ok");
  ASSERT_NE(dying.ask("anchored"), "");
  dying.kill(SIGKILL);
  behind.tell("lock");
  kit::until([&] { return other.ask("look") == "tickets: holds@run/7 waits"; });
  EXPECT_EQ(other.ask("remove"), "ok");
  EXPECT_NE(behind.hear(), "");
  EXPECT_EQ(other.ask("look"), "tickets: holds");
}

INSTANTIATE_TEST_SUITE_P(In, KilledClient, ::testing::Values("sqlite", "postgres", "etcd"),
                         [](const auto& kind) { return std::string{kind.param}; });

// --- a process that can start no thread

base::Detached count_grants(const Space& space, Path path, std::atomic<int>& grants) {
  const Hold hold = co_await space.async_lock(path);
  ++grants;
  grants.notify_all();
}

TEST(NoThreads, ACoroutineIsResumedOnce) {
  const Process process{[](const Line& line) {
    kit::give_up_root();
    const auto store = std::make_shared<MemoryStore>();
    const Space holding = open(store);
    const Space waiting = open(store);
    Hold first = holding.lock(Path::of("first"));
    Hold second = holding.lock(Path::of("second"));
    std::atomic<int> first_grants = 0;
    std::atomic<int> second_grants = 0;
    count_grants(waiting, Path::of("first"), first_grants);
    count_grants(waiting, Path::of("second"), second_grants);
    {
      const kit::NoNewThreads limit;
      first.release();
      first_grants.wait(0);
    }
    second.release();
    second_grants.wait(0);
    line.say(std::to_string(first_grants) + " and " + std::to_string(second_grants));
  }};
  process.line().limit(patience);
  EXPECT_EQ(process.hear(), "1 and 1");
}

}  // namespace
}  // namespace tenure

// A process forks while another thread is inside a local space: the child has that thread's locks,
// but not the thread. Here the fork happens inside an allocation of such a call, so that the locks
// are always held.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "tenure/tenure.hpp"

namespace {

const std::function<bool()>* in_child = nullptr;  // If set, forks at the next allocation.
pid_t child = -1;

void fork_here() {
  const std::function<bool()>& work = *std::exchange(in_child, nullptr);
  child = ::fork();
  if (child != 0) return;
  ::alarm(20);  // Kills a child that waits for a lock.
  ::_exit(work() ? 0 : 1);
}

}  // namespace

// Replaced for the whole test program. Not inlined: g++ would see malloc inside new, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (in_child != nullptr) fork_here();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace tenure::local {
namespace {

const Path book = Path::of("book");

bool throws(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

class LocalFork : public ::testing::Test {
 protected:
  // Whether `work` returns true in a child that is forked inside `call`.
  static bool forked_in(const std::function<void()>& call, const std::function<bool()>& work) {
    in_child = &work;
    call();
    if (std::exchange(in_child, nullptr) != nullptr) {
      ADD_FAILURE() << "the call allocates nothing, so it did not fork";
      return false;
    }
    int status = 0;
    while (::waitpid(child, &status, 0) == -1) {
    }
    EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  // With the locks of all shards held.
  bool forked(const std::function<bool()>& work) {
    return forked_in([this] { static_cast<void>(space->inspect()); }, work);
  }

  std::optional<Space> space = open("local:");
  Hold hold = space->lock(book);
};

TEST_F(LocalFork, TheChildDestroysTheSpace) {
  EXPECT_TRUE(forked([this] {
    space.reset();
    hold = Hold{};
    return true;
  }));
  EXPECT_TRUE(hold.renew()) << "nothing has changed for the parent";
}

TEST_F(LocalFork, TheChildOwnsNothing) {
  EXPECT_TRUE(forked([this] { return !hold.release(); }));
  EXPECT_TRUE(forked([this] { return throws([this] { hold.renew(); }); }));
  EXPECT_TRUE(forked([this] { return throws([this] { static_cast<void>(hold.lost()); }); }));
  EXPECT_TRUE(forked([this] { return throws([this] { hold.downgrade(book.shared()); }); }));
  EXPECT_TRUE(hold.release());
}

TEST_F(LocalFork, TheChildMustOpenTheSpaceAgain) {
  const Path film = Path::of("film");
  const auto refused = [this](const std::function<void()>& call) {
    return forked([&call] { return throws(call); });
  };
  EXPECT_TRUE(refused([&] { static_cast<void>(space->lock(film)); }));
  EXPECT_TRUE(refused([&] { static_cast<void>(space->try_lock(film)); }));
  EXPECT_TRUE(refused([&] { static_cast<void>(space->as("somebody")); }));
  EXPECT_TRUE(refused([&] { static_cast<void>(space->inspect()); }));
  EXPECT_TRUE(refused([&] { static_cast<void>(space->evict(hold.token())); }));
  EXPECT_TRUE(forked([] { return open("local:").try_lock(book).has_value(); }));
}

// The list of owners has its own lock.
TEST_F(LocalFork, TheChildForgetsAnOwner) {
  std::optional<Locker> one = space->as("one");
  const auto make_another = [this] { static_cast<void>(space->as("another")); };
  EXPECT_TRUE(forked_in(make_another, [&one] {
    one.reset();
    return true;
  }));
}

}  // namespace
}  // namespace tenure::local

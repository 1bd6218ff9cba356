#include "base/fork.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenure::base {
namespace {

// Whether `holds` is true in a forked child.
template <class Holds>
bool in_child(Holds holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(Fork, AChildAndItsChildAreNewGenerations) {
  const std::uint64_t parent = fork_generation();
  EXPECT_TRUE(in_child([parent] {
    const std::uint64_t child = fork_generation();
    return forked_since(parent) && !forked_since(child) &&
           in_child([child] { return forked_since(child); });
  }));
}

TEST(Fork, AParentStaysInItsGeneration) {
  const std::uint64_t parent = fork_generation();
  EXPECT_TRUE(in_child([] { return true; }));
  EXPECT_FALSE(forked_since(parent));
  EXPECT_EQ(fork_generation(), parent);
}

}  // namespace
}  // namespace tenure::base

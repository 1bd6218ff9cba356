// tests/kit/README.md: a process that is a function.
#include <gtest/gtest.h>

#include <string>

#include "tests/kit/process.hpp"

namespace tenure::kit {
namespace {

TEST(KitReadme, AProcessIsAFunction) {
  // SNIPPET
}

}  // namespace
}  // namespace tenure::kit

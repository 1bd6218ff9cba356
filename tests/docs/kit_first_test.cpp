// tests/kit/README.md: a test with two processes.
#include <gtest/gtest.h>

#include <string>

#include "tests/kit/lock_client.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::kit {
namespace {

// SNIPPET

}  // namespace
}  // namespace tenure::kit

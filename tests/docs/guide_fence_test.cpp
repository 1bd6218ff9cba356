// docs/guide.md: a resource that refuses late writers by their tokens.
#include <gtest/gtest.h>

#include "tenure/tenure.hpp"

namespace {

TEST(DocsGuide, Fence) {
  const tenure::Token token{7};
  const auto refuse = [] { ADD_FAILURE(); };
  // SNIPPET
  EXPECT_FALSE(fence.admit(tenure::Token{6}, tenure::Mode::exclusive()));
}

}  // namespace

// docs/workflows.md: the first workflow.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>

#include "tests/kit/scratch.hpp"

// SNIPPET

namespace {

TEST(DocsWorkflows, StartsASubscription) {
  const std::filesystem::path before = std::filesystem::current_path();
  const tenure::kit::TemporaryDirectory directory;
  std::filesystem::current_path(directory.path());
  serve();
  serve();  // The same key: the same run.
  tenure::Engine engine{tenure::store("sqlite:app.db")};
  EXPECT_EQ(engine.list().size(), 1U);
  std::filesystem::current_path(before);
}

}  // namespace

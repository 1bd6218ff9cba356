// docs/guide.md: a ticket that outlives its process, and is found again.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tenure/tenure.hpp"
#include "tests/kit/scratch.hpp"

namespace {

const tenure::Name account{"account-of-an-order"};

// The block has a relative path in it.
class DocsGuideAnchor : public ::testing::Test {
 protected:
  DocsGuideAnchor() { std::filesystem::current_path(directory_.path()); }
  ~DocsGuideAnchor() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  tenure::kit::TemporaryDirectory directory_;
};

TEST_F(DocsGuideAnchor, KeepsItsTicketUntilTheOrderIsDone) {
  // SNIPPET
  const tenure::Token token = hold.detach();
  space.close();
  tenure::Space heir = tenure::open(store);
  EXPECT_FALSE(heir.try_lock(account(42)).has_value());
  EXPECT_EQ(heir.anchored("orders/7").request_id(1).lock(account(42)).detach(), token);
  std::optional<tenure::Hold> found = heir.find(token);
  ASSERT_TRUE(found.has_value());
  found->detach();
  tenure::Txn done;
  done.writes = {tenure::Write::remove("orders/7")};
  store->apply(done);
  EXPECT_TRUE(heir.try_lock(account(42)).has_value());
}

}  // namespace

#include "space/local/slab.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace tenure::local {
namespace {

TEST(Pool, RecordsAreDistinctAlignedAndUsedAgain) {
  SlabSource source;
  Pool pool{source, 200};
  std::vector<void*> records;
  for (int i = 0; i < 10'000; ++i) {
    records.push_back(pool.take());
    std::memset(records.back(), i, 200);
  }
  EXPECT_EQ(std::set<void*>(records.begin(), records.end()).size(), records.size());
  for (void* record : records) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(record) % 16, 0U);
  std::ranges::shuffle(records, std::mt19937{7});
  EXPECT_FALSE(pool.sparse());
  while (records.size() > 100) {
    pool.give(records.back());
    records.pop_back();
  }
  EXPECT_TRUE(pool.sparse()) << "a hundred records pin slabs for ten thousand";
  for (void* record : records) pool.give(record);
  void* const first = pool.take();
  pool.give(first);
  EXPECT_EQ(pool.take(), first) << "the last one given is the next one taken";
}

TEST(Pool, RecordsThatFillASlab) {
  SlabSource source;
  Pool pool{source, slab_bytes - 64};
  void* const one = pool.take();
  void* const two = pool.take();
  EXPECT_NE(one, two);
  pool.give(one);
  pool.give(two);
  EXPECT_NE(pool.take(), nullptr);
}

}  // namespace
}  // namespace tenure::local

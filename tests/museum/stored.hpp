// stored.hpp: a space in a store whose clock stands still until a test advances it, and other
// spaces in the same store, which look like other processes.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "tenure/memory_store.hpp"
#include "tests/museum/museum.hpp"

namespace tenure::museum {

class StoredMuseum : public ::testing::Test {
 protected:
  [[nodiscard]] Space other() const { return open(store); }

  [[nodiscard]] std::string session_of(Token token) const {
    for (const TicketInfo& info : space.inspect()) {
      if (info.ticket.number == token) return info.session;
    }
    return {};
  }
  // Of tickets, and of all entries.
  [[nodiscard]] std::size_t tickets() const { return count("\x01", "\x03"); }
  [[nodiscard]] std::size_t entries() const { return count("", ""); }

  void move(std::chrono::nanoseconds by) const {
    store->advance(by);
    store->settle();
  }

  // Counts applies from now on, and those that write; not those that are made here.
  struct Counts {
    std::atomic<std::size_t> applies = 0;
    std::atomic<std::size_t> writes = 0;
  };
  [[nodiscard]] std::shared_ptr<Counts> count_applies() const {
    auto counts = std::make_shared<Counts>();
    store->before_apply([counts](const Txn& txn) {
      ++counts->applies;
      if (!txn.writes.empty()) ++counts->writes;
    });
    return counts;
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Space space = open(store);

 private:
  [[nodiscard]] std::size_t count(std::string from, std::string to) const {
    Txn read;
    Range range;
    range.from = std::move(from);
    range.to = std::move(to);
    read.reads.push_back(range);
    return store->apply(read).reads.front().size();
  }
};

}  // namespace tenure::museum

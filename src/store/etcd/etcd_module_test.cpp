// The store as programs use it: by URL, from a module, in a program that does not link gRPC.
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX's.

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "store/module.hpp"
#include "tenure/store.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/message.hpp"

namespace tenure::etcd {
namespace {

using kit::contains;
using kit::Etcd;
using kit::free_port;
using kit::message_of;
using kit::new_prefix;

std::string directory_of_tests() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

TEST(EtcdModule, AStoreIsOpenedByItsUrl) {
  const auto store = tenure::store(Etcd::instance().url(new_prefix()));
  Txn txn;
  txn.writes.push_back(Write::put("a", "1"));
  txn.reads.push_back(Range::key("a"));
  const Outcome outcome = store->apply(txn);
  ASSERT_TRUE(outcome.committed);
  EXPECT_EQ(outcome.reads.at(0).at(0).value, "1");
}

TEST(EtcdModule, WhatIsWrongWithAUrlIsSaidFirst) {
  const auto text = message_of<Error>([] { static_cast<void>(tenure::store("etcd://h:port/p")); });
  EXPECT_TRUE(contains(text, "port")) << text;
}

TEST(EtcdModule, AStoreErrorOfTheModuleIsCaughtAsOne) {
  const auto text = message_of<StoreError>([] {
    static_cast<void>(
        tenure::store("etcd://127.0.0.1:" + std::to_string(free_port()) + "/p?timeout=100ms"));
  });
  EXPECT_TRUE(contains(text, "can't be reached")) << text;
}

TEST(EtcdModule, AnUnknownOutcomeIsKnownToBeUnknown) {
  Etcd server;
  const auto store = tenure::store(server.url("p") + "?timeout=3s");
  server.signal(SIGSTOP);
  Txn txn;
  txn.writes.push_back(Write::put("a", "1"));
  try {
    static_cast<void>(store->apply(txn));
    ADD_FAILURE() << "a server that is stopped answered";
  } catch (const StoreError& error) {
    EXPECT_TRUE(error.unknown()) << error.what();
  }
  server.signal(SIGCONT);
}

TEST(EtcdModule, ABadRequestOfTheModuleIsCaughtAsOne) {
  const auto store = tenure::store(Etcd::instance().url(new_prefix()));
  Txn txn;
  for (int i = 0; i < 200; ++i) txn.writes.push_back(Write::put(std::to_string(i), ""));
  const auto text = message_of<BadRequest>([&] { static_cast<void>(store->apply(txn)); });
  EXPECT_TRUE(contains(text, "128")) << text;
  EXPECT_TRUE(store->apply({.guards = {}, .writes = {}, .reads = {Range::prefix("1")}})
                  .reads.at(0)
                  .empty());
}

TEST(EtcdModule, OneThatIsNotThereSaysWhatToInstall) {
  const auto text = message_of<StoreError>([] {
    static_cast<void>(stores::load_module("tenure_nothing", "the package", {"/a", "/b"}));
  });
  EXPECT_TRUE(contains(text,
                       "cannot find 'tenure_nothing.so' (the package) in /a, /b: this program was "
                       "built without it, or it is not installed"))
      << text;
  EXPECT_TRUE(contains(text, "TENURE_MODULES")) << text;
}

TEST(EtcdModule, AProgramWithoutARunpathSaysHowToLinkIt) {
  const auto text = message_of<StoreError>(
      [] { static_cast<void>(stores::load_module("tenure_nothing", "the package", {})); });
  EXPECT_TRUE(contains(text, "no directory to search for the module tenure_nothing.so")) << text;
  EXPECT_TRUE(contains(text, "pkg-config")) << text;
}

TEST(EtcdModule, OneOfAnotherReleaseIsRefused) {
  const auto text = message_of<StoreError>([] {
    static_cast<void>(stores::load_module("tenure_foreign_module", "the package",
                                          {directory_of_tests() + "/modules"}));
  });
  EXPECT_TRUE(contains(text, "0.0.1")) << text;
}

TEST(EtcdModule, WhatIsNoModuleIsRefused) {
  const kit::TemporaryDirectory directory;
  const std::string file = directory / "broken.so";
  ASSERT_TRUE(std::filesystem::copy_file("/proc/self/exe", file));
  const auto text = message_of<StoreError>([&] {
    static_cast<void>(stores::load_module("broken", "the package",
                                          {std::filesystem::path{file}.parent_path().string()}));
  });
  EXPECT_TRUE(contains(text, "cannot load the module '" + file + "': install the package again"))
      << text;
}

TEST(EtcdModule, ThePlacesAreAskedInOrder) {
  ASSERT_EQ(::setenv("TENURE_MODULES", "/first::/second", 1), 0);
  const std::vector<std::string> all = stores::module_directories();
  ::unsetenv("TENURE_MODULES");
  const auto tree = std::filesystem::path{directory_of_tests()}.parent_path();
  EXPECT_EQ(all, (std::vector<std::string>{"/first", "/second", tree / "lib/tenure"}));
}

TEST(EtcdModule, ARunpathStartsAtTheObjectAndNeverAtTheCurrentDirectory) {
  const std::vector<std::string> moved{"/fixed", "/moved/bin/../lib", "/moved/bin"};
  EXPECT_EQ(stores::expand_runpath("/fixed:$ORIGIN/../lib:${ORIGIN}", "/moved/bin"), moved);
  EXPECT_EQ(stores::expand_runpath("::lib:./lib:/fixed:", "/o"),
            std::vector<std::string>{"/fixed"});
  EXPECT_EQ(stores::expand_runpath("/fixed:$ORIGIN/../lib", ""),
            std::vector<std::string>{"/fixed"});
  EXPECT_TRUE(stores::expand_runpath("", "/o").empty());
}

}  // namespace
}  // namespace tenure::etcd

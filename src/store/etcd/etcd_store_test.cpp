#include "store/etcd/etcd_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/conformance.hpp"
#include "store/etcd/etcd_test.hpp"

namespace tenure::etcd {
namespace {

conformance::StoreUnderTest make_etcd() {
  const std::string url = the_server().url(new_prefix());
  return {
      .open = [url] { return open_etcd_alone(url); },
      .across_processes = true,
      // Its lease ends.
      .kill =
          [url](Session& session) { Client{parse_address(url)}.revoke(*lease_of(session.id())); }};
}

}  // namespace
}  // namespace tenure::etcd

namespace tenure::conformance {

INSTANTIATE_TEST_SUITE_P(Etcd, StoreConformance,
                         ::testing::Values(StoreKind{"etcd", etcd::make_etcd}), kind_name);

}  // namespace tenure::conformance

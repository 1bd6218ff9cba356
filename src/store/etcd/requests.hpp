// requests.hpp: small parts of requests to etcd that plans and forms share.
#pragma once

#include <string>
#include <utility>

#include "rpc.pb.h"
#include "store/etcd/layout.hpp"

namespace tenure::etcd {

namespace pb = ::etcdserverpb;

inline pb::Compare* add_compare(pb::TxnRequest& request, pb::Compare::CompareTarget target,
                                pb::Compare::CompareResult result, std::string key) {
  pb::Compare* const compare = request.add_compare();
  compare->set_target(target);
  compare->set_result(result);
  compare->set_key(std::move(key));
  return compare;
}

// EQUAL: there is no such key, or no key in [key, end); GREATER: there is one.
inline void compare_created(pb::TxnRequest& request, pb::Compare::CompareResult result,
                            std::string key, std::string end = {}) {
  pb::Compare* const compare = add_compare(request, pb::Compare::CREATE, result, std::move(key));
  compare->set_create_revision(0);
  if (!end.empty()) compare->set_range_end(std::move(end));
}

inline void compare_value(pb::TxnRequest& request, pb::Compare::CompareResult result,
                          std::string key, std::string value) {
  add_compare(request, pb::Compare::VALUE, result, std::move(key))->set_value(std::move(value));
}

inline pb::PutRequest& add_put(google::protobuf::RepeatedPtrField<pb::RequestOp>& ops,
                               std::string key, std::string value) {
  pb::PutRequest& put = *ops.Add()->mutable_request_put();
  put.set_key(std::move(key));
  put.set_value(std::move(value));
  return put;
}

}  // namespace tenure::etcd

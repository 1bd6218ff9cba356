// What the module exports.
#include "store/module.hpp"

#include "store/etcd/etcd_store.hpp"

extern "C" __attribute__((visibility("default"))) const tenure::stores::Module*
tenure_store_module() {
  static const tenure::stores::Module module{.version = tenure::stores::module_version(),
                                             .open = tenure::etcd::open_etcd};
  return &module;
}

// For tests: a module of another release.
#include "store/module.hpp"

extern "C" __attribute__((visibility("default"))) const tenure::stores::Module*
tenure_store_module() {
  static const tenure::stores::Module module{.version = "0.0.1", .open = nullptr};
  return &module;
}

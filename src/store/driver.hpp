// driver.hpp: stores that a program may leave out, together with the client library of their
// database: the components `sqlite` and `postgres`.
//
// Each is a library of its own that defines one Driver. open.cpp refers to the drivers weakly: of
// one that is not linked, the address is null. The linker takes an object out of a static library
// only if something needs it, and a weak reference does not. So the build of each component tells
// the linker that the program needs the driver (`-u`; cmake/Layer.cmake, DRIVER).
//
// Rejected: drivers that register themselves in a constructor. The linker must be told the same,
// and whether a store can be opened would depend on the order of constructors.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tenure/store.hpp"

namespace tenure::stores {

struct Driver {
  std::shared_ptr<Store> (*open)(std::string_view url);
  std::string (*shown)(std::string_view url);  // Without secrets. Null: a URL has none.
  void (*repair)(std::string_view url);        // Null: there is nothing to repair.
};

}  // namespace tenure::stores

extern "C" {
extern const tenure::stores::Driver tenure_driver_sqlite;
extern const tenure::stores::Driver tenure_driver_postgres;
}

// schema.hpp: finds or creates the tables of a store.
//
// Any number of clients may start at once: the first one to get an advisory lock creates everything
// in one transaction, and the others find it. A schema of a later version is refused and left
// alone. In a schema of our version with older routines, the first client whose role owns it
// replaces them, and it upgrades a schema of the version before; every program of that version is
// refused from then on.
#pragma once

#include <cstdint>

#include "store/postgres/connection.hpp"
#include "store/postgres/url.hpp"

namespace tenure::postgres {

// Returns the number (oid) of the schema. Throws Failed, or StoreError for a schema of another
// version.
std::int64_t open_schema(Connection& connection, const Target& target);

}  // namespace tenure::postgres

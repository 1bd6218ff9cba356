// schema.hpp: finding or making the tables of a store.
//
// Any number of clients may start at once: the first to get an advisory lock makes everything in
// one transaction, the others find it. A schema of a later version is refused, and left alone. In a
// schema of our version with older routines, the first client whose role owns it replaces those.
#pragma once

#include <cstdint>

#include "store/postgres/connection.hpp"
#include "store/postgres/url.hpp"

namespace tenure::postgres {

// The number (oid) of the schema. Throws Failed, or StoreError for one that is not for us.
std::int64_t open_schema(Connection& connection, const Target& target);

}  // namespace tenure::postgres

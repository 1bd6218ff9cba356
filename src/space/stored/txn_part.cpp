#include "space/stored/txn_part.hpp"

#include <algorithm>
#include <string>

#include "tenure/detail/reserved_keys.hpp"
#include "tenure/error.hpp"
#include "tenure/path.hpp"

namespace tenure::stored {

void check_part(const TxnPart& part) {
  if (part.guards.size() > TxnPart::max_part || part.writes.size() > TxnPart::max_part) {
    throw BadRequest("the transaction part has " + std::to_string(part.guards.size()) +
                     " guards and " + std::to_string(part.writes.size()) + " writes: use at most " +
                     std::to_string(TxnPart::max_part) + " of each");
  }
  for (const Write& write : part.writes) {
    const auto first = static_cast<unsigned char>(write.key.empty() ? '\0' : write.key.front());
    if (first >= static_cast<unsigned char>(reserved::first_free)) continue;
    throw BadRequest("the transaction part writes the key '" + Path::of(write.key).text() +
                     "', which is empty or one that Tenure uses itself: use a key of your own");
  }
}

void add_part(const TxnPart& part, Txn& txn) {
  txn.guards.insert(txn.guards.end(), part.guards.begin(), part.guards.end());
  txn.writes.insert(txn.writes.end(), part.writes.begin(), part.writes.end());
  txn.durability = std::max(txn.durability, part.durability);
}

void refuse_failed_guards(Store& store, const TxnPart& part) {
  if (part.guards.empty()) return;
  Txn txn;
  txn.guards = part.guards;
  if (store.apply(txn).committed) return;
  throw GuardFailed(
      "a guard of the caller's transaction part does not hold, so nothing was changed: read what "
      "it "
      "guards, and decide again");
}

}  // namespace tenure::stored

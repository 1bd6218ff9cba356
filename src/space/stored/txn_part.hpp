// txn_part.hpp: guards and writes of the caller in a transaction of the space.
#pragma once

#include "tenure/store.hpp"

namespace tenure::stored {

// Throws BadRequest for a part that is too large, or that writes a key that Tenure uses itself.
void check_part(const TxnPart& part);
void add_part(const TxnPart& part, Txn& txn);
// After a transaction with the part was not committed: throws GuardFailed if a guard of the part
// does not hold now. Returns if another guard was the cause, or the cause is gone: try again.
void refuse_failed_guards(Store& store, const TxnPart& part);

}  // namespace tenure::stored

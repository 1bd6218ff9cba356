#include "space/stored/record.hpp"

#include "space/stored/tickets.hpp"

namespace tenure::stored {

Txn removal(const Record& record) {
  Txn txn;
  Tickets::add_removal(record.row, record.number, txn);
  const base::Mutex::Scoped lock{record.mutex};
  if (record.perhaps.has_value()) {
    for (const Claim& claim : record.perhaps->claims) {
      txn.writes.push_back(Write::remove(row_key(claim, record.number)));
    }
  } else {
    txn.guards.push_back(Tickets::held(record.row, record.number));
  }
  return txn;
}

}  // namespace tenure::stored

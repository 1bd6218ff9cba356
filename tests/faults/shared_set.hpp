// shared_set.hpp: what holders of a lock keep a set in, and how each keeps late writers out.
//
//   place | is                         | a late writer is refused by
//   ------+----------------------------+----------------------------------------------------------
//   store | a key of the lock's store  | nothing; or the hold's guard, in the apply that writes
//   table | a row of the same database | tenure.fence() in the transaction that writes
//   file  | a file of its own          | Fence, which has seen the tokens of all who read or wrote
//
// A token protects only from those that it has met: who reads shows it too, or a late writer could
// still come between that read and its write.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tenure/hold.hpp"
#include "tenure/store.hpp"

namespace tenure::faults {

class SharedSet {
 public:
  SharedSet() = default;
  SharedSet(const SharedSet&) = delete;
  SharedSet& operator=(const SharedSet&) = delete;
  virtual ~SharedSet() = default;

  // Nothing: refused.
  [[nodiscard]] virtual std::optional<std::string> read(const Hold& hold) = 0;
  // False: refused. Throws StoreError where that is not known.
  [[nodiscard]] virtual bool write(const Hold& hold, const std::string& set) = 0;
  // Without a lock, when all is over.
  [[nodiscard]] virtual std::string look() = 0;
};

[[nodiscard]] std::unique_ptr<SharedSet> set_in_store(std::shared_ptr<Store> store, bool guarded);
// Table `SCHEMA_set` with one row; `url` is libpq's, `schema` the store's.
[[nodiscard]] std::unique_ptr<SharedSet> set_in_table(const std::string& url,
                                                      const std::string& schema);
[[nodiscard]] std::unique_ptr<SharedSet> set_in_file(const std::string& path);

}  // namespace tenure::faults

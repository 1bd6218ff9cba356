// shared_set.hpp: where the holders of a lock keep a set, and how a late writer is refused.
//
//   kind  | is                         | a late writer is refused by
//   ------+----------------------------+----------------------------------------------------------
//   store | a key of the lock's store  | nothing; or the hold's guard, in the apply that writes
//   table | a row of the same database | tenure.fence() in the transaction that writes
//   file  | a separate file            | Fence, which has seen all tokens that read or wrote
//
// A token protects only if the resource has seen it. So readers show their token too; otherwise a
// late writer could still come between a read and its write.
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
  // False: refused. Throws StoreError if the outcome is unknown.
  [[nodiscard]] virtual bool write(const Hold& hold, const std::string& set) = 0;
  // Reads without the lock, at the end of the test.
  [[nodiscard]] virtual std::string look() = 0;
};

[[nodiscard]] std::unique_ptr<SharedSet> set_in_store(std::shared_ptr<Store> store, bool guarded);
// Table `SCHEMA_set` with one row. `url` is for libpq, `schema` is the store's.
[[nodiscard]] std::unique_ptr<SharedSet> set_in_table(const std::string& url,
                                                      const std::string& schema);
[[nodiscard]] std::unique_ptr<SharedSet> set_in_file(const std::string& path);

}  // namespace tenure::faults

// A holder may be stopped in the middle of its work, lose its lock, and go on as if it had it. It
// can't know, but what it writes to can: a store by the hold's guard, anything else by a Fence.
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "tenure/fence.hpp"
#include "tenure/tenure.hpp"

namespace {

const tenure::Name counter{"counter"};

int read_count(tenure::Store& store) {
  tenure::Txn txn;
  txn.reads = {tenure::Range::key("count")};
  const auto found = store.apply(txn).reads.front();
  return found.empty() ? 0 : std::stoi(found.front().value);
}

// "The hold still stands" and the write are one atomic step. False: it does not, and nothing is
// written.
bool write_count(tenure::Store& store, const tenure::Hold& hold, int count) {
  tenure::Txn txn;
  txn.guards = hold.guard();
  txn.writes = {tenure::Write::put("count", std::to_string(count))};
  return store.apply(txn).committed;
}

// A resource of one's own, which knows nothing of the store: a disk, a service, a printer. It keeps
// a Fence, and refuses whoever comes with an older token than it has seen.
class Ledger {
 public:
  bool write(std::string_view line, tenure::Token token) {
    if (!fence_.admit(token, tenure::Mode::exclusive())) return false;
    last_line_ = line;
    return true;
  }
  [[nodiscard]] const std::string& last_line() const { return last_line_; }

 private:
  tenure::Fence fence_;  // Saved with the ledger, as fence_.text(), where that outlives a process.
  std::string last_line_;
};

void report(std::string_view who, bool written, std::string_view now) {
  std::cout << who << (written ? " writes" : " is refused") << ", now: " << now << '\n';
}

}  // namespace

int main() {
  // "memory:" so that it leaves nothing behind; "sqlite:app.db" is the same for many processes.
  const std::shared_ptr<tenure::Store> store = tenure::store("memory:");
  const tenure::Space slow_process = tenure::open(store);
  const tenure::Space quick_process = tenure::open(store);
  Ledger ledger;

  // The slow one reads, and is stopped before it writes. An operator takes its lock away.
  const tenure::Hold slow = slow_process.lock(counter);
  const int seen_by_slow = read_count(*store);
  quick_process.evict_now(slow.token());

  // The quick one is next: it reads, and writes to both.
  const tenure::Hold quick = quick_process.lock(counter);
  const int seen_by_quick = read_count(*store);
  report("quick, to the store,", write_count(*store, quick, seen_by_quick + 1),
         std::to_string(read_count(*store)));
  report("quick, to the ledger,", ledger.write("one by quick", quick.token()), ledger.last_line());

  // The slow one wakes. What it has worked out is old, and is refused by both.
  report("slow, to the store,", write_count(*store, slow, seen_by_slow + 1),
         std::to_string(read_count(*store)));
  report("slow, to the ledger,", ledger.write("one by slow", slow.token()), ledger.last_line());

  // It starts again, behind the quick one, and now both are counted.
  report("quick again, to the store,", write_count(*store, quick, read_count(*store) + 1),
         std::to_string(read_count(*store)));
}

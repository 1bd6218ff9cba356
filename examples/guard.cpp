// A holder may be stopped in the middle of its work, lose its lock, and go on as if it had it. It
// can't know, but what it writes to can: a store by the hold's guard, anything else by a Fence.
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

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

void report(std::string_view what, bool written, std::string_view now) {
  std::cout << what << (written ? ": written" : ": refused") << "; it says " << now << '\n';
}

}  // namespace

int main() {
  // "memory:" so that it leaves nothing behind; "sqlite:app.db" is the same for many processes.
  const std::shared_ptr<tenure::Store> store = tenure::store("memory:");
  const tenure::Space slow_process = tenure::open(store);
  const tenure::Space quick_process = tenure::open(store);
  Ledger ledger;

  const auto to_both = [&](std::string_view who, const tenure::Hold& hold, int count) {
    const std::string text = std::to_string(count) + ", by " + std::string{who};
    const bool counted = write_count(*store, hold, count);
    report(std::string{who} + " to the store", counted, std::to_string(read_count(*store)));
    const bool noted = ledger.write(text, hold.token());
    report(std::string{who} + " to the ledger", noted, ledger.last_line());
  };

  // The slow one reads, and is stopped before it writes. An operator takes its lock away.
  tenure::Hold slow = slow_process.lock(counter);
  const int seen_by_slow = read_count(*store);
  quick_process.evict_now(slow.token());

  // The quick one is next.
  tenure::Hold quick = quick_process.lock(counter);
  to_both("quick", quick, read_count(*store) + 1);

  // The slow one wakes. What it had worked out is old, and neither of them takes it.
  to_both("slow", slow, seen_by_slow + 1);

  // So it asks again, reads again, and both increments are there.
  quick.release();
  slow = slow_process.lock(counter);
  to_both("slow", slow, read_count(*store) + 1);
}

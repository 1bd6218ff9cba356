// A holder that lost its lock without noticing must not write. The resource compares tokens: it
// refuses one that is older than the newest it has seen.
#include <iostream>
#include <string>
#include <string_view>

#include "tenure/tenure.hpp"

namespace {

const tenure::Name account{"account"};

class Ledger {
 public:
  bool write(std::string_view text, tenure::Token token) {
    if (token < newest_) return false;
    newest_ = token;
    text_ = text;
    return true;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  tenure::Token newest_;
};

void report(std::string_view who, bool written, const Ledger& ledger) {
  std::cout << who << (written ? " writes" : " is refused")
            << "; the ledger says: " << ledger.text() << '\n';
}

}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");
  Ledger ledger;

  tenure::Hold slow = space.as("slow").lock(account(7));
  report("slow", ledger.write("10 from slow", slow.token()), ledger);

  // The slow one hangs, and an operator takes its lock away.
  space.evict(slow.token());
  const tenure::Hold quick = space.as("quick").lock(account(7));
  report("quick", ledger.write("20 from quick", quick.token()), ledger);

  // It wakes up. Its token is older than what the ledger has seen, whatever it believes.
  report("slow", ledger.write("11 from slow", slow.token()), ledger);
  std::cout << "slow asks whether it lost the hold: "
            << (slow.lost().stop_requested() ? "yes" : "no") << '\n';
  std::cout << "slow gives back what it no longer has: "
            << (slow.release() ? "released" : "nothing happens") << '\n';
  report("quick", ledger.write("21 from quick", quick.token()), ledger);
}

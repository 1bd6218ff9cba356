// The smallest use of the installed package: its headers are found, and its libraries link.
// With a URL, it opens that store.
#include <iostream>
#include <tenure/tenure.hpp>

inline const tenure::Name book{"book"};

int main(int argc, char** argv) {
  if (argc > 1) {
    try {
      return tenure::store(argv[1]) == nullptr ? 1 : 0;
    } catch (const tenure::StoreError& error) {
      std::cerr << error.what() << '\n';
      return 1;
    }
  }
  const tenure::Space space = tenure::open("local:");
  const tenure::Hold hold = space.lock(book(3));
  std::cout << space.inspect().front().ticket.claims.front().text() << '\n';
  return space.try_lock(book) ? 1 : 0;
}

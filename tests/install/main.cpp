// The smallest use of the installed package: its headers are found, and its libraries link.
#include <iostream>
#include <tenure/tenure.hpp>

inline const tenure::Name book{"book"};

int main() {
  const tenure::Space space = tenure::open("local:");
  const tenure::Hold hold = space.lock(book(3));
  std::cout << space.inspect().front().ticket.claims.front().text() << '\n';
  return space.try_lock(book) ? 1 : 0;
}

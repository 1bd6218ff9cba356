// Locks on a tree of scopes: two fetches of the list of books, an update of one book, and a fetch
// that comes while the update waits.
#include <iostream>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {
const tenure::Name book{"book"};
const tenure::Name magazine{"magazine"};
}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");

  tenure::Hold list = space.as("list").lock(book.shared());
  example::print("1. A fetch of all books shares the branch `book`:", space);

  tenure::Hold filter = space.as("filter").lock(book.shared());
  example::print("2. A filtered fetch shares it too:", space);

  tenure::Hold saved;
  std::jthread saving{[&] { saved = space.as("save").lock(book(1)); }};
  example::until_waiting(space, 1);
  example::print("3. Saving book 1 excludes both, so it waits for both:", space);

  tenure::Hold fetched;
  std::jthread fetching{[&] { fetched = space.as("refetch").lock(book.shared()); }};
  example::until_waiting(space, 2);
  example::print("4. A later fetch doesn't overtake the update:", space);

  tenure::Hold other = space.as("other").lock(magazine);
  example::print("5. Another branch is nobody's concern:", space);
  other.release();

  list.release();
  example::print("6. One fetch is done; the update still waits:", space);

  filter.release();
  saving.join();
  example::print("7. Both are done; book 1 is locked, and `book` above it with it:", space);

  tenure::Hold sibling = space.as("sibling").try_lock(book(2)).value_or(tenure::Hold{});
  std::cout << "8. Book 2 at once? " << (sibling ? "yes" : "no, the waiting fetch was first")
            << '\n';

  saved.release();
  fetching.join();
  example::print("9. The update is done, and the fetch goes on:", space);

  fetched.release();
  example::print("10. Everything was given back:", space);
}

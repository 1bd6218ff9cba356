// Two fetches may run at once if their queries differ; a write waits for both. Each fetch asks for
// two claims in one request: the books, shared, and its own query, exclusive.
#include <string_view>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {

const tenure::Name book{"book"};
const tenure::Name by_query{"fetchByQuery"};

tenure::Hold fetch(const tenure::Locker& locker, std::string_view query) {
  return locker.lock({book.shared(), by_query(query)});
}

}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");

  tenure::Hold first = fetch(space.as("first"), "author=7");
  tenure::Hold same;
  std::jthread again{[&] { same = fetch(space.as("same"), "author=7"); }};
  example::until_waiting(space, 1);
  tenure::Hold different = fetch(space.as("different"), "author=8");
  example::print("The same query waits, another one does not:", space);

  first.release();
  again.join();
  example::print("The first fetch is done:", space);

  tenure::Hold written;
  std::jthread write{[&] { written = space.as("write").lock(book(3)); }};
  example::until_waiting(space, 1);
  example::print("A write waits for every fetch, whatever its query:", space);

  same.release();
  different.release();
  write.join();
  example::print("Both are done:", space);
}

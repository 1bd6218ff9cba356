#include <tenure/tenure.hpp>

#include <cstdio>
#include <thread>

inline const tenure::Name book{"book"}, chapter{"chapter"};

int main() {
  const tenure::Space space = tenure::open("local:");
  tenure::Hold reader = space.lock(book.shared());  // a reader of every book

  std::jthread writer{[&] {  // a writer of one chapter waits its turn …
    space.with(book(3) / chapter(7), [](const tenure::Hold&) { std::puts("chapter 7 written"); });
  }};
  while (space.inspect().size() < 2) std::this_thread::yield();

  for (const tenure::TicketInfo& info : space.inspect()) {  // … and anybody can see who waits
    std::printf("%-16s %s, position %zu\n", info.ticket.claims.front().text().c_str(),
                info.granted ? "holds" : "waits", info.position);
  }
  std::puts(space.try_lock(book(3).shared()) ? "free" : "taken");  // nobody overtakes the writer
  reader.release();
}

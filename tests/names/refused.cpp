// Code that must not compile. CASE 0 must, so that each other case fails only for its own reason.
#include <memory>

#include "tenure/name.hpp"

#define TEN(x) x x x x x x x x x x
#define LONGEST TEN(TEN("0123456789abcdef0123456789abcdef01234567")) TEN("123456789") "1234"

struct Unknown {};

inline const tenure::Name book{"book"}, longest{LONGEST};

void try_it();
void try_it() {
  [[maybe_unused]] const tenure::Path fine = book(3, "x");
#if CASE == 1
  (void)book(true);
#elif CASE == 2
  (void)book('x');
#elif CASE == 3
  (void)book(Unknown{});
#elif CASE == 4
  const tenure::Name empty{""};
#elif CASE == 5
  const tenure::Name too_long{LONGEST "5"};
#elif CASE == 6
  const char* text = "known at run time";
  const tenure::Name run_time{text};
#elif CASE == 7
  const tenure::Name copy{book};
#elif CASE == 8
  const auto* leaked = new tenure::Name{"leaked"};
#elif CASE == 9
  (void)book(1.5);
#endif
}

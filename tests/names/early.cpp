// Names at the two ends of a program: before all other initialisation, and after all destruction.
#include <cstdio>

#include "shelf.hpp"

namespace {

struct Late {
  ~Late() { std::printf("after main: %zu\n", tenure::names().size()); }
};
[[gnu::init_priority(101)]] const Late late;
[[gnu::init_priority(102)]] const tenure::Name first{"first"};

}  // namespace

int main() {
  std::printf("main: %zu\n", tenure::names().size());
  return 0;
}

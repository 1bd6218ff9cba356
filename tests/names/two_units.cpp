// With again.cpp: one program, two translation units.
#include <cstdio>

#include "shelf.hpp"

int main() {
  std::puts("main was reached");
  return 0;
}

// The smallest use of the installed package: its headers are found, its errors can be caught.
#include <iostream>
#include <tenure/error.hpp>

int main() {
  try {
    throw tenure::Error("installed");
  } catch (const tenure::Error& error) {
    std::cout << error.what() << '\n';
  }
  return 0;
}

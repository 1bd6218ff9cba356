// A program that uses two static libraries that do not know each other.
#include <cstdio>

bool first_library();
bool second_library();

int main() {
  std::puts(first_library() && second_library() ? "main was reached" : "");
  return 0;
}

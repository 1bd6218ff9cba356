// Defines the name that author_a.cpp defines, for something else.
#include "tenure/name.hpp"

static const tenure::Name author{"author"};

extern "C" [[gnu::visibility("default")]] bool plugin_works() {
  return author(2) == tenure::Path::of("author", 2);
}

#include "tenure/name.hpp"

static const tenure::Name author{"author"};

extern "C" [[gnu::visibility("default")]] bool plugin_works() {
  return author(1) == tenure::Path::of("author", 1);
}

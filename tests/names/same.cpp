#include "shelf.hpp"

// What the host shares with this plug-in must be usable here.
extern "C" [[gnu::visibility("default")]] bool plugin_works() {
  return book(3) == tenure::Path::of("book", 3);
}

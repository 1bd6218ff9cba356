// A second definition of `book`, by an author who does not know shelf.hpp.
#include "tenure/name.hpp"

extern const tenure::Name our_book;
const tenure::Name our_book{"book"};

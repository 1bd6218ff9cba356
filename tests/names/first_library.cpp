#include "tenure/name.hpp"

static const tenure::Name shelf{"shelf"};

bool first_library();
bool first_library() { return shelf(1).depth() == 2; }

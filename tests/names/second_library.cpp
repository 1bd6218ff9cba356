#include "tenure/name.hpp"

static const tenure::Name wing{"wing"}, shelf{"shelf"};

bool second_library();
bool second_library() { return shelf(wing.path().text()).depth() == 2; }

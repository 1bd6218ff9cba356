// What a program and its plug-ins share: one definition, compiled into each of them.
#pragma once

#include "tenure/name.hpp"

inline const tenure::Name book{"book"};

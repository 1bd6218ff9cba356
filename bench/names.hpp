// names.hpp: the names that the benchmarks lock. One definition each: a program has one registry.
#pragma once

#include "tenure/name.hpp"

namespace tenure::bench {

inline const Name book{"book"};
inline const Name film{"film"};

}  // namespace tenure::bench

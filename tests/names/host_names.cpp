// The part of a host that contains Tenure.
#include <cstdio>

#include "shelf.hpp"

void list_names();

void list_names() {
  for (const tenure::NameInfo& info : tenure::names()) {
    std::printf("%s, %zu: %s:%u:%u\n", info.name.c_str(), info.definitions, info.file.c_str(),
                info.line, info.column);
  }
}

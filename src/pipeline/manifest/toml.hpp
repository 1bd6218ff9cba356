// toml.hpp: toml++ as this room uses it: headers only, exceptions.
#pragma once

#include "pipeline/manifest.hpp"
#include "pipeline/manifest/toml_library.hpp"

namespace tenure::pipeline {

[[nodiscard]] inline Position position_of(const toml::source_region& source) noexcept {
  return {.line = source.begin.line, .column = source.begin.column};
}
[[nodiscard]] inline Position position_of(const toml::node& node) noexcept {
  return position_of(node.source());
}
[[nodiscard]] inline Position position_of(const toml::key& key) noexcept {
  return position_of(key.source());
}

}  // namespace tenure::pipeline

#include <nlohmann/json.hpp>

#include "pipeline/manifest.hpp"
#include "pipeline/manifest/keys.hpp"

namespace tenure::pipeline {
namespace {

using Schema = nlohmann::ordered_json;

Schema schema_of(Section section);

Schema text_schema() { return {{"type", "string"}}; }
Schema array_of(Schema items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Schema table_of(Schema values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}
Schema either(Schema a, Schema b) { return {{"oneOf", {std::move(a), std::move(b)}}}; }
Schema scalar_schema() { return {{"type", {"string", "number", "boolean"}}}; }

// NOLINTNEXTLINE(misc-no-recursion): sections are four deep.
Schema schema_of(const Key& key) {
  switch (key.kind) {
    case Kind::text: return text_schema();
    case Kind::texts: return array_of(text_schema());
    case Kind::run: {
      Schema words = array_of(text_schema());
      words["minItems"] = 1;
      return either(text_schema(), words);
    }
    case Kind::count: return {{"type", "integer"}, {"minimum", key.least}, {"maximum", key.most}};
    case Kind::flag: return {{"type", "boolean"}};
    case Kind::duration:
      // Or a variable that has one.
      return {{"type", "string"}, {"pattern", "^([0-9]+(d|h|m|s|ms))+$|\\{\\{"}};
    case Kind::values: return table_of(scalar_schema());
    case Kind::matrix: {
      Schema values = array_of(scalar_schema());
      values["minItems"] = 1;
      values["uniqueItems"] = true;
      return table_of(values);
    }
    case Kind::anything: return {{"type", "object"}};
    case Kind::condition: return either(text_schema(), schema_of(Section::check));
    case Kind::one_retry: return schema_of(Section::retry);
    case Kind::one_check: return schema_of(Section::check);
    case Kind::one_verify: return schema_of(Section::verify);
    case Kind::edits: return array_of(schema_of(Section::edit));
    case Kind::replacements: return array_of(schema_of(Section::replacement));
    case Kind::tasks: return table_of(schema_of(Section::task));
    case Kind::one_defaults: return schema_of(Section::defaults);
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): sections are four deep.
Schema schema_of(Section section) {
  Schema out{{"type", "object"}, {"additionalProperties", false}};
  Schema required = Schema::array();
  for (const Key& key : keys_of(section)) {
    Schema one = schema_of(key);
    one["description"] = key.about;
    out["properties"][std::string{key.name}] = std::move(one);
    if (key.required) required.push_back(key.name);
  }
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

}  // namespace

std::string manifest_schema() {
  Schema out{{"$schema", "http://json-schema.org/draft-07/schema#"},
             {"title", "A manifest of tenure pipeline"}};
  out.update(schema_of(Section::top));
  return out.dump(2) + '\n';
}

}  // namespace tenure::pipeline

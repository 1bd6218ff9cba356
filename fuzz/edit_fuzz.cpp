// Any bytes as a JSON or TOML file in which a value is set: refused with a reason, or a document
// that has the value and is not changed when the value is set again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/edits/content.hpp"

namespace {

using tenure::pipeline::Content;
using tenure::pipeline::Edit;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "edit_fuzz: " << what << '\n';
  std::abort();
}

void check(std::string_view before, const Content& after, const Edit::Set& set, bool json) {
  if (!after) {
    require(!after.error().empty(), "no reason");
    return;
  }
  if (json) {
    require(nlohmann::json::accept(before), "set in what is no JSON");
    const nlohmann::json document = nlohmann::json::parse(*after);
    const nlohmann::json* at = &document;
    for (const std::string& part : set.key) at = at->is_array() ? &at->at(0) : &at->at(part);
    require(*at == nlohmann::json::parse(set.value), "the value is not there");
  }
  // Setting it again changes nothing.
  const Content again = json ? set_json(*after, set) : set_toml(*after, set);
  require(again == after, "set twice is not set once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Edit::Set> sets{
      {.key = {"a"}, .value = R"("x\n\"")"},
      {.key = {"a", "b"}, .value = R"([1,{"c d":true}])"},
      {.key = {"a", "0", "b"}, .value = "1.5"},
      {.key = {"é.", "b"}, .value = R"({})"},
  };
  if (size == 0) return 0;
  const Edit::Set& set = sets[data[0] % sets.size()];
  const std::string text(data + 1, data + size);
  check(text, set_json(text, set), set, true);
  check(text, set_toml(text, set), set, false);
  return 0;
}

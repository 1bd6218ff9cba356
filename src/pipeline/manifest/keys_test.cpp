// The table of keys, what the parser reads, and the schema for editors: one truth.
#include "pipeline/manifest/keys.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "pipeline/manifest.hpp"
#include "tests/kit/message.hpp"

namespace tenure::pipeline {
namespace {

using Json = nlohmann::json;

// A manifest with one more key in that section.
std::string manifest_with(Section section, const std::string& key) {
  const std::string task = "[task.a]\nrun = 'x'\n";
  switch (section) {
    case Section::top: return key + "\n" + task;
    case Section::defaults: return "[defaults]\n" + key + "\n" + task;
    case Section::task:
      return "[task.a]\n" + key + "\n" + (key.starts_with("run") ? "" : "run='x'");
    case Section::retry: return task + "[task.a.retry]\nmax = 1\n" + key;
    case Section::check:
    case Section::verify:
      return task + (section == Section::check ? "[task.a.done]\n" : "[task.a.verify]\n") + key +
             (key.starts_with("run") || key.starts_with("http") ? "" : "\nrun = 'y'");
    case Section::edit: return task + "[[task.a.edits]]\nfile = 'f'\n" + key;
    case Section::replacement:
      return task +
             "[[task.a.edits]]\nfile = 'f'\n[[task.a.edits.replace]]\nfrom = 'a'\nto = 'b'\n" + key;
  }
  return {};
}

constexpr auto sections = {Section::top,   Section::defaults, Section::task, Section::retry,
                           Section::check, Section::verify,   Section::edit, Section::replacement};

// No key is of this type, so the parser refuses it where it reads it.
TEST(ManifestKeys, EveryKeyOfTheTableIsReadByTheParser) {
  for (const Section section : sections) {
    for (const Key& key : keys_of(section)) {
      std::string text = manifest_with(section, std::string{key.name} + " = 1979-05-27");
      for (const std::string present :
           {"max = 1\n", "file = 'f'\n", "from = 'a'\n", "to = 'b'\n", "[task.a]\nrun = 'x'\n"}) {
        const bool twice = (key.required && present.starts_with(key.name)) || key.name == "task";
        if (twice && text.contains(present)) text.erase(text.find(present), present.size());
      }
      const std::string said =
          kit::message_of<ManifestError>([&] { (void)parse_manifest(text, "m", {}); });
      EXPECT_TRUE(kit::contains(said, "`" + std::string{key.name} + "` must be ")) << text << "\n"
                                                                                   << said;
    }
  }
}

TEST(ManifestKeys, NoOtherKeyIsTaken) {
  for (const Section section : sections) {
    const std::string said = kit::message_of<ManifestError>(
        [&] { (void)parse_manifest(manifest_with(section, "zzzzz = 1"), "m", {}); });
    EXPECT_TRUE(kit::contains(said, "unknown key 'zzzzz' in " + std::string{name_of(section)}))
        << said;
  }
}

// The properties of an object in the schema are the keys of its section.
void expect_keys(const Json& schema, Section section) {
  SCOPED_TRACE(name_of(section));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  const Json& properties = schema.at("properties");
  EXPECT_EQ(properties.size(), keys_of(section).size());
  Json required = Json::array();
  for (const Key& key : keys_of(section)) {
    ASSERT_TRUE(properties.contains(key.name)) << key.name;
    EXPECT_EQ(properties.at(std::string{key.name}).at("description"), key.about);
    if (key.required) required.push_back(key.name);
  }
  EXPECT_EQ(schema.value("required", Json::array()), required);
}

TEST(ManifestKeys, TheSchemaHasTheSameKeys) {
  const Json top = Json::parse(manifest_schema());
  const Json& task = top.at("properties").at("task").at("additionalProperties");
  const Json& edit = task.at("properties").at("edits").at("items");
  expect_keys(top, Section::top);
  expect_keys(top.at("properties").at("defaults"), Section::defaults);
  expect_keys(task, Section::task);
  expect_keys(task.at("properties").at("retry"), Section::retry);
  expect_keys(task.at("properties").at("done"), Section::check);
  expect_keys(task.at("properties").at("when").at("oneOf").at(1), Section::check);
  expect_keys(task.at("properties").at("verify"), Section::verify);
  expect_keys(edit, Section::edit);
  expect_keys(edit.at("properties").at("replace").at("items"), Section::replacement);
}

}  // namespace
}  // namespace tenure::pipeline

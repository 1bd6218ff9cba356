#include "pipeline/edits/content.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kit/message.hpp"

namespace tenure::pipeline {
namespace {

using Key = std::vector<std::string>;

std::string shown(const Content& content) {
  return content ? *content : "refused: " + content.error();
}
std::string json(std::string_view bytes, const Key& key, const std::string& value) {
  return shown(set_json(bytes, {.key = key, .value = value}));
}
std::string toml(std::string_view bytes, const Key& key, const std::string& value) {
  return shown(set_toml(bytes, {.key = key, .value = value}));
}

TEST(SetJson, ReplacesAValueAndNothingElse) {
  EXPECT_EQ(json("{ \"a\" :1.50 ,\n\t\"b\":[ 1 , {\"c\": \"\\u0041\\\"}\"} ]\r\n}\n", {"a"}, "2"),
            "{ \"a\" :2 ,\n\t\"b\":[ 1 , {\"c\": \"\\u0041\\\"}\"} ]\r\n}\n");
  EXPECT_EQ(json(R"({"a":{"b":{"c":1},"d":2}})", {"a", "b", "c"}, R"("x")"),
            R"({"a":{"b":{"c":"x"},"d":2}})");
  EXPECT_EQ(json(R"({"a":[1,[2,3],{"b":4}]})", {"a", "2", "b"}, "null"),
            R"({"a":[1,[2,3],{"b":null}]})");
  EXPECT_EQ(json(R"({"\u0061":1})", {"a"}, "2"), R"({"\u0061":2})") << "an escaped key";
  EXPECT_EQ(json("\xef\xbb\xbf{\"a\":1}", {"a"}, "2"), "\xef\xbb\xbf{\"a\":2}");
  EXPECT_EQ(json(R"({"a.b":1,"a":{"b":2}})", {"a.b"}, "3"), R"({"a.b":3,"a":{"b":2}})");
}

TEST(SetJson, AddsAKeyAsTheOthersAreWritten) {
  EXPECT_EQ(
      json("{\n  \"name\": \"x\",\n  \"version\": \"1\"\n}\n", {"publishConfig", "tag"},
           R"("next")"),
      "{\n  \"name\": \"x\",\n  \"version\": \"1\",\n  \"publishConfig\": {\"tag\": \"next\"}\n}"
      "\n");
  EXPECT_EQ(json(R"({"a":{"b":1}})", {"a", "c"}, "2"), R"({"a":{"b":1, "c": 2}})");
  EXPECT_EQ(json(R"({"a":{ }})", {"a", "c"}, "2"), R"({"a":{"c": 2 }})");
  EXPECT_EQ(json("{}", {"a", "b", "c"}, "2"), R"({"a": {"b": {"c": 2}}})");
}

TEST(SetJson, RefusesWhatItCannotDoExactly) {
  EXPECT_TRUE(kit::contains(json(R"({"a":1,"a":2})", {"b"}, "3"), "has the key `a` twice"));
  EXPECT_TRUE(kit::contains(json(R"({"x":{"a":1,"\u0061":2},"b":1})", {"b"}, "3"),
                            "has the key `a` twice"));
  EXPECT_TRUE(kit::contains(json(R"({"a":1})", {"a", "b"}, "3"), "`a` is not an object"));
  EXPECT_TRUE(
      kit::contains(json(R"({"a":[1]})", {"a", "1"}, "3"), "an array without that element"));
  EXPECT_TRUE(kit::contains(json("[]", {"a"}, "3"), "the document is an array"));
  EXPECT_TRUE(kit::contains(json("{\"a\":1,}", {"a"}, "3"), "is not valid JSON: "));
  EXPECT_TRUE(kit::contains(json("{// no\n\"a\":1}", {"a"}, "3"), "is not valid JSON: "));
  EXPECT_TRUE(kit::contains(json("", {"a"}, "3"), "is not valid JSON: "));
  const std::string deep(300, '[');
  EXPECT_TRUE(kit::contains(json("{\"a\":" + deep + std::string(300, ']') + "}", {"a"}, "3"),
                            "nested deeper than 256"));
}

TEST(SetToml, ReplacesAValueAndNothingElse) {
  EXPECT_EQ(toml("# é\na = 'é' # b\n[t]\nb = [ 1, # x\n 2 ]\n", {"a"}, R"("x")"),
            "# é\na = \"x\" # b\n[t]\nb = [ 1, # x\n 2 ]\n");
  EXPECT_EQ(toml("[t]\nb = [ 1, # x\n 2 ] # c\n", {"t", "b"}, "7"), "[t]\nb = 7 # c\n");
  EXPECT_EQ(toml("[t]\nb = \"\"\"\nx\"\"\"\nc = 1\n", {"t", "b"}, "true"),
            "[t]\nb = true\nc = 1\n");
  EXPECT_EQ(toml("'é é'.b = { c = 1, d = '2' }\n", {"é é", "b", "d"}, "[1,2]"),
            "'é é'.b = { c = 1, d = [1, 2] }\n");
  EXPECT_EQ(toml("[[p]]\nn = 1\n[[p]]\nn = 2\n", {"p", "1", "n"}, "3"),
            "[[p]]\nn = 1\n[[p]]\nn = 3\n");
  EXPECT_EQ(toml("a = [1, 2.5, 3]\r\nb = 1\r\n", {"a", "1"}, "1.5"),
            "a = [1, 1.5, 3]\r\nb = 1\r\n");
  EXPECT_EQ(toml("a = 1979-05-27T07:32:00Z\nb=0x1F\n", {"b"}, "1"),
            "a = 1979-05-27T07:32:00Z\nb=1\n");
}

TEST(SetToml, AddsAKeyWhereItBelongs) {
  EXPECT_EQ(toml("# top\na = 1\n\n[t]\nb = 1\n\n[u]\n", {"t", "c"}, "2"),
            "# top\na = 1\n\n[t]\nb = 1\nc = 2\n\n[u]\n");
  EXPECT_EQ(toml("# top\na = 1\n\n[t]\nb = 1\n", {"c"}, "2"),
            "# top\na = 1\nc = 2\n\n[t]\nb = 1\n");
  EXPECT_EQ(toml("[t]\n[t.u]\nb = 1\n", {"t", "c"}, "2"), "[t]\nc = 2\n[t.u]\nb = 1\n");
  EXPECT_EQ(toml("a = { b = 1 }", {"a", "c d"}, "2"), "a = { \"c d\" = 2, b = 1 }");
  EXPECT_EQ(toml("a = {}", {"a", "c"}, "2"), "a = { c = 2 }");
  EXPECT_EQ(toml("", {"a"}, "2"), "a = 2\n");
  EXPECT_EQ(toml("[t]\nb = 1", {"x", "y"}, "2"), "x.y = 2\n[t]\nb = 1");
  EXPECT_EQ(toml("[t]\r\nb = 1\r\n", {"t", "c"}, R"({"d":"e"})"),
            "[t]\r\nb = 1\r\nc = { d = \"e\" }\r\n");
}

TEST(SetToml, RefusesWhatItCannotDoExactly) {
  EXPECT_TRUE(kit::contains(toml("a = 1\na = 2\n", {"a"}, "3"), "is not valid TOML: line 2"));
  EXPECT_TRUE(kit::contains(toml("a = 1\n", {"a", "b"}, "3"), "is not a table"));
  EXPECT_TRUE(kit::contains(toml("a = [1]\n", {"a", "1"}, "3"), "has no such element"));
  EXPECT_TRUE(kit::contains(toml("a = 1\n", {"a"}, "null"), "TOML has no null"));
}

TEST(ReplaceText, ReplacesTheOneOccurrence) {
  EXPECT_EQ(shown(replace_text("a b c", {.from = "b", .to = "xx"})), "a xx c");
  EXPECT_TRUE(kit::contains(shown(replace_text("a", {.from = "b", .to = ""})), "does not occur"));
  EXPECT_TRUE(
      kit::contains(shown(replace_text("aaa", {.from = "aa", .to = ""})), "occurs more than once"))
      << "overlapping ones count too";
}

TEST(EditedContent, MakesOneChangeAfterTheOther) {
  Edit edit{.file = "a.json", .format = Edit::Format::json};
  edit.set = {{.key = {"a"}, .value = "2"}, {.key = {"b"}, .value = "3"}};
  edit.replace = {{.from = "3", .to = "4"}};
  EXPECT_EQ(shown(edited_content(R"({"a":1})", edit)), R"({"a":2, "b": 4})");
}

}  // namespace
}  // namespace tenure::pipeline

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "pipeline/edits/content.hpp"

namespace tenure::pipeline {
namespace {

using JsonValue = nlohmann::json;

constexpr int max_depth = 256;

// Why a document is refused.
struct Refused {
  std::string why;
};

std::optional<std::size_t> index_of(std::string_view part) {
  std::size_t index = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
  if (parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size()) return std::nullopt;
  return index;
}

// Walks over a document that a parser has accepted, so it only needs to find where things end.
// Finds the value of a key, or else the innermost container above it.
class JsonScanner {
 public:
  JsonScanner(std::string_view text, const std::vector<std::string>& key) : text_(text), key_(key) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    scan_value(0, true);
  }

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::optional<Range> value;  // Of the whole key.
  // The innermost value on the way to the key, and how many parts of the key lead to it.
  Range above;
  std::size_t parts = 0;
  char kind = 0;                      // Its first byte: { [ " or that of a number or a word.
  std::optional<Range> first_member;  // Of that object: from its key to the end of its value,
  std::size_t last_end = 0;           // and the end of the last one.

 private:
  void skip_blank() {
    while (at_ < text_.size() && std::string_view{" \t\r\n"}.contains(text_[at_])) ++at_;
  }

  std::string_view scan_string() {
    const std::size_t begin = at_++;
    while (text_.at(at_) != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // `on_way`: the first `depth` parts of the key lead here.
  // NOLINTNEXTLINE(misc-no-recursion): max_depth bounds it.
  void scan_value(std::size_t depth, bool on_way) {
    if (depth > max_depth) throw Refused{"it is nested deeper than 256 levels: flatten it"};
    skip_blank();
    const std::size_t begin = at_;
    const char first = text_.at(at_);
    const bool above_key = on_way && depth < key_.size();
    Members members;
    if (first == '{') {
      members = scan_members(depth, above_key);
    } else if (first == '[') {
      scan_elements(depth, above_key);
    } else if (first == '"') {
      scan_string();
    } else {
      while (at_ < text_.size() && !std::string_view{" \t\r\n,]}"}.contains(text_[at_])) ++at_;
    }
    if (!on_way) return;
    if (depth == key_.size()) value = Range{.begin = begin, .end = at_};
    // What is deeper was here before.
    if (above_key && (kind == 0 || depth > parts)) {
      above = {.begin = begin, .end = at_};
      parts = depth;
      kind = first;
      first_member = members.first;
      last_end = members.last_end;
    }
  }

  struct Members {
    std::optional<Range> first;
    std::size_t last_end = 0;
  };

  // NOLINTNEXTLINE(misc-no-recursion): max_depth bounds it.
  Members scan_members(std::size_t depth, bool above_key) {
    Members members;
    std::set<std::string> seen;
    ++at_;
    for (skip_blank(); text_.at(at_) != '}'; skip_blank()) {
      const std::size_t begin = at_;
      const auto name = JsonValue::parse(scan_string()).get<std::string>();
      if (!seen.insert(name).second) {
        throw Refused{"it has the key " + key_text({name}) + " twice in one object: remove one"};
      }
      skip_blank();
      ++at_;  // The colon.
      scan_value(depth + 1, above_key && name == key_[depth]);
      members.last_end = at_;
      if (!members.first) members.first = Range{.begin = begin, .end = at_};
      skip_blank();
      if (text_.at(at_) == ',') ++at_;
    }
    ++at_;
    return members;
  }

  // NOLINTNEXTLINE(misc-no-recursion): max_depth bounds it.
  void scan_elements(std::size_t depth, bool above_key) {
    const std::optional<std::size_t> wanted =
        above_key ? index_of(key_[depth]) : std::optional<std::size_t>{};
    std::size_t index = 0;
    ++at_;
    for (skip_blank(); text_.at(at_) != ']'; skip_blank(), ++index) {
      scan_value(depth + 1, wanted == index);
      skip_blank();
      if (text_.at(at_) == ',') ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  const std::vector<std::string>& key_;
  std::size_t at_ = 0;
};

std::string text_of_value(const JsonValue& value) {
  return value.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
}

// "a": {"b": value} for the parts of the key that are new.
std::string new_member(const std::vector<std::string>& key, std::size_t from,
                       const std::string& value) {
  std::string out;
  for (std::size_t i = from; i < key.size(); ++i) {
    out += (i == from ? "" : "{") + text_of_value(key[i]) + ": ";
  }
  out += value;
  out.append(key.size() - from - 1, '}');
  return out;
}

std::string with_new_member(std::string_view text, const JsonScanner& found, const Edit::Set& set) {
  std::string out{text};
  const std::string member = new_member(set.key, found.parts, set.value);
  if (!found.first_member) return out.insert(found.above.begin + 1, member);
  // As the first member is set off from the brace, so is the new one from the comma.
  const std::size_t inside = found.above.begin + 1;
  const std::string_view blank = text.substr(inside, found.first_member->begin - inside);
  const bool own_line = blank.contains('\n');
  return out.insert(found.last_end, "," + std::string{own_line ? blank : " "} + member);
}

// The document with the value set, as a parser sees it.
JsonValue expected_document(JsonValue document, const Edit::Set& set) {
  JsonValue* at = &document;
  for (const std::string& part : set.key) {
    if (at->is_array()) {
      at = &at->at(index_of(part).value_or(at->size()));
    } else {
      at = &(*at)[part];
    }
  }
  *at = JsonValue::parse(set.value);
  return document;
}

Content refuse_json(const std::string& why) { return std::unexpected(why); }

}  // namespace

Content set_json(std::string_view bytes, const Edit::Set& set) {
  try {
    const JsonValue before = JsonValue::parse(bytes);
    const JsonScanner found{bytes, set.key};
    std::string out;
    if (found.value) {
      out = std::string{bytes.substr(0, found.value->begin)} + set.value +
            std::string{bytes.substr(found.value->end)};
    } else if (found.kind == '{') {
      out = with_new_member(bytes, found, set);
    } else {
      const bool array = found.kind == '[';
      return refuse_json(
          "the key " + key_text(set.key) + " can't be set: " +
          (found.parts == 0
               ? "the document"
               : key_text({set.key.begin(),
                           set.key.begin() + static_cast<std::ptrdiff_t>(found.parts)})) +
          (array ? " is an array without that element" : " is not an object") + ": check the key");
    }
    if (JsonValue::parse(out) != expected_document(before, set)) {
      return refuse_json("the key " + key_text(set.key) +
                         " can't be set without another change: "
                         "use `replace`");
    }
    return out;
  } catch (const JsonValue::exception& error) {
    return refuse_json(std::string{"it is not valid JSON: "} + error.what() + ": correct it");
  } catch (const Refused& refused) {
    return refuse_json(refused.why);
  }
}

}  // namespace tenure::pipeline

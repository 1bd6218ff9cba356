#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/escape.hpp"
#include "pipeline/edits/content.hpp"
#include "pipeline/manifest/toml_library.hpp"

namespace tenure::pipeline {
namespace {

using Literal = nlohmann::ordered_json;

std::optional<std::size_t> element_index(std::string_view part) {
  std::size_t index = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
  if (parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size()) return std::nullopt;
  return index;
}

// JSON escapes \/ never, and TOML knows all others that dump() writes; \u007f stands for itself in
// JSON, but not in TOML.
std::string toml_text(const std::string& text) {
  std::string out;
  for (const char c : Literal(text).dump()) {
    if (c == '\x7f') {
      out += "\\u007f";
    } else {
      out += c;
    }
  }
  return out;
}

std::string toml_key(const std::string& part) {
  const bool bare = !part.empty() && std::ranges::all_of(part, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return bare ? part : toml_text(part);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as every range.
std::string dotted(const std::vector<std::string>& key, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to; ++i) out += (i == from ? "" : ".") + toml_key(key[i]);
  return out;
}

// Null: TOML has no null, and no number that large.
// NOLINTNEXTLINE(misc-no-recursion): manifests nest 256 deep at most.
std::optional<std::string> literal_of(const Literal& value) {
  if (value.is_string()) return toml_text(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return value.dump();
  if (value.is_number_float()) return value.dump();  // With a point or an exponent.
  if (!value.is_structured()) return std::nullopt;
  std::string out;
  for (const auto& [key, one] : value.items()) {
    const std::optional<std::string> text = literal_of(one);
    if (!text) return std::nullopt;
    out += out.empty() ? "" : ", ";
    out += value.is_object() ? toml_key(key) + " = " + *text : *text;
  }
  if (value.is_array()) return "[" + out + "]";
  return out.empty() ? "{}" : "{ " + out + " }";
}

// Lines and columns, which count characters, as bytes.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (std::size_t at = text.find('\n'); at != std::string_view::npos;
         at = text.find('\n', at + 1)) {
      begins_.push_back(at + 1);
    }
    if (text.starts_with("\xef\xbb\xbf")) begins_.front() = 3;
  }
  [[nodiscard]] std::size_t offset(toml::source_position position) const {
    if (position.line == 0 || position.line > begins_.size()) return text_.size();
    std::size_t at = begins_[position.line - 1];
    for (std::uint32_t column = 1; column < position.column && at < text_.size(); ++column) {
      do ++at;
      while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xc0U) == 0x80U);
    }
    return at;
  }
  // Behind the end of that line.
  [[nodiscard]] std::size_t after(std::uint32_t line) const {
    return line < begins_.size() ? begins_[line] : text_.size();
  }
  [[nodiscard]] std::size_t begin() const { return begins_.front(); }

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_{0};
};

// The innermost node on the way to the key, and how many parts of the key lead to it.
struct Way {
  const toml::node* node = nullptr;
  std::size_t parts = 0;
};

Way way_to(const toml::table& document, const std::vector<std::string>& key) {
  Way way{.node = &document};
  for (const std::string& part : key) {
    const toml::node* next = nullptr;
    if (const auto* table = way.node->as_table()) {
      next = table->get(part);
    } else if (const auto* array = way.node->as_array()) {
      const auto index = element_index(part);
      next = index ? array->get(*index) : nullptr;
    }
    if (next == nullptr) return way;
    way = {.node = next, .parts = way.parts + 1};
  }
  return way;
}

// The document with the value set, as a parser sees it.
toml::table expected_table(const toml::table& before, const std::vector<std::string>& key,
                           const toml::node& value) {
  toml::table document = before;
  toml::node* at = &document;
  for (std::size_t i = 0; i + 1 < key.size(); ++i) {
    if (auto* table = at->as_table()) {
      if (!table->contains(key[i])) table->insert(key[i], toml::table{});
      at = table->get(key[i]);
    } else {
      // NOLINTNEXTLINE(bugprone-unchecked-optional-access): way_to() has been here.
      at = at->as_array()->get(element_index(key[i]).value());
    }
  }
  value.visit([&](const auto& one) {
    if (auto* table = at->as_table()) {
      table->insert_or_assign(key.back(), one);
    } else {
      auto& array = *at->as_array();
      const auto index = static_cast<std::ptrdiff_t>(element_index(key.back()).value());
      array.replace(array.cbegin() + index, one);
    }
  });
  return document;
}

// Where a new key could go, as whole documents; the first that parses as expected is right.
class Candidates {
 public:
  Candidates(std::string_view text, const Edit::Set& set, const std::string& literal)
      : text_(text),
        lines_(text),
        set_(set),
        literal_(literal),
        newline_(text.contains("\r\n") ? "\r\n" : "\n") {}

  std::vector<std::string> all(const Way& way) {
    const std::vector<std::string>& key = set_.key;
    if (way.parts == key.size()) {
      const auto& source = way.node->source();
      const std::size_t begin = lines_.offset(source.begin);
      put(begin, lines_.offset(source.end) - begin, literal_);
      return std::move(out_);
    }
    const toml::table& table = *way.node->as_table();
    const std::string line = dotted(key, way.parts, key.size()) + " = " + literal_;
    if (table.is_inline()) {
      const std::size_t brace = lines_.offset(table.source().begin) + 1;
      put(brace, 0, " " + line + (table.empty() ? " " : ","));
      return std::move(out_);
    }
    // Behind the last value of the table, or behind its header.
    std::uint32_t last = 0;
    for (const auto& [name, value] : table) {
      const bool own_header = value.is_table() && !value.as_table()->is_inline();
      const bool headers = value.is_array_of_tables();
      if (!own_header && !headers) last = std::max(last, value.source().end.line);
    }
    if (last != 0) put_line(lines_.after(last), line);
    if (way.parts != 0) put_line(lines_.after(table.source().begin.line), line);
    put_line(lines_.begin(), dotted(key, 0, key.size()) + " = " + literal_);
    if (key.size() > 1) {
      put_line(text_.size(), "[" + dotted(key, 0, key.size() - 1) + "]" + std::string{newline_} +
                                 toml_key(key.back()) + " = " + literal_);
    }
    return std::move(out_);
  }

 private:
  void put(std::size_t at, std::size_t size, const std::string& bytes) {
    if (at > text_.size() || size > text_.size() - at) return;
    out_.push_back(std::string{text_.substr(0, at)} + bytes + std::string{text_.substr(at + size)});
  }
  void put_line(std::size_t at, const std::string& line) {
    const bool open = at == text_.size() && at > lines_.begin() && !text_.ends_with('\n');
    put(at, 0, (open ? std::string{newline_} : "") + line + std::string{newline_});
  }

  std::string_view text_;
  Lines lines_;
  const Edit::Set& set_;
  const std::string& literal_;
  std::string_view newline_;
  std::vector<std::string> out_;
};

Content refuse_toml(const std::vector<std::string>& key, const std::string& why) {
  return std::unexpected("the key " + key_text(key) + " can't be set: " + why);
}

std::optional<toml::table> parse_or_null(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace

Content set_toml(std::string_view bytes, const Edit::Set& set) {
  toml::table before;
  try {
    before = toml::parse(bytes);
  } catch (const toml::parse_error& error) {
    std::string why;
    append_escaped(why, error.description(), "");
    return std::unexpected(
        "it is not valid TOML: line " + std::to_string(error.source().begin.line) + ", column " +
        std::to_string(error.source().begin.column) + ": " + why + ": correct it");
  }
  const std::optional<std::string> literal = literal_of(Literal::parse(set.value));
  if (!literal) return refuse_toml(set.key, "TOML has no null: use another value");
  const std::optional<toml::table> value = parse_or_null("v = " + *literal);
  if (!value) return refuse_toml(set.key, "TOML can't hold this value: use another one");
  const Way way = way_to(before, set.key);
  if (way.parts != set.key.size() && !way.node->is_table()) {
    return refuse_toml(set.key,
                       "a part above it is not a table, or has no such element: check the "
                       "key");
  }
  const toml::table expected = expected_table(before, set.key, *value->get("v"));
  for (std::string& candidate : Candidates{bytes, set, *literal}.all(way)) {
    if (parse_or_null(candidate) == expected) return std::move(candidate);
  }
  return refuse_toml(set.key, "no place for it leaves the rest as it is: use `replace`");
}

}  // namespace tenure::pipeline

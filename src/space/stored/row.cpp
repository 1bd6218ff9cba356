#include "space/stored/row.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/escape.hpp"
#include "space/stored/keys.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

using Json = nlohmann::json;

// Written by hand: a tree of values costs as much as the transaction's own work.
void append_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto plain = [](char c) { return c != '\0' && static_cast<unsigned char>(c) < 0x80U; };
  const std::string escaped = std::ranges::all_of(text, plain) ? std::string{} : as_utf8(text);
  out += '"';
  for (const char c : escaped.empty() ? text : std::string_view{escaped}) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20U) {
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4U];
      out += digits[static_cast<unsigned char>(c) & 0xfU];
    } else {
      out += c;
    }
  }
  out += '"';
}

template <std::integral T>
void append_number(std::string& out, T value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_claim(std::string& out, const Claim& claim) {
  out += '[';
  append_string(out, claim.path.text());
  if (!claim.mode.is_exclusive()) {
    out += ',';
    append_string(out, Path::of(claim.mode.name()).text());
    if (claim.mode.limit() != 0) {
      out += ',';
      append_number(out, claim.mode.limit());
    }
    if (claim.mode.weight() != 1) {
      out += ',';
      append_number(out, claim.mode.weight());
    }
  }
  out += ']';
}

// The format of an entry that needs none of the later ones.
char least_format(bool kept_or_replaces, bool weighted, bool anchored) {
  if (kept_or_replaces) return '4';
  if (weighted) return '3';
  return anchored ? '2' : '1';
}

// The beginning of an entry, up to its anchor.
void append_head(std::string& out, char format, std::string_view anchor) {
  out += '{';
  if (format != '1') {
    out += R"("format":)";
    out += format;
    out += ',';
  }
  if (anchor.empty()) return;
  out += R"("anchor":["key",)";
  append_string(out, Path::of(anchor).text());
  out += ']';
}

void append_kept(std::string& out, std::uint64_t kept) {
  out += R"(,"kept":)";
  for (char before = '['; kept != 0; kept &= kept - 1, before = ',') {
    out += before;
    append_number(out, std::countr_zero(kept));
  }
  out += ']';
}

bool weighted(const Claim& claim) { return claim.mode.weight() != 1; }

// Not get<>() alone: it would cast a number with a fraction or an exponent, whatever its size.
std::int64_t integer(const Json& json) {
  if (!json.is_number_integer()) throw BadRequest("a number is not an integer");
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    throw BadRequest("a number is too large");
  }
  return json.get<std::int64_t>();
}

// All 64 bits: tokens of etcd pass 2^63 in 2038, or earlier if one client's clock is ahead.
std::uint64_t natural(const Json& json) {
  if (!json.is_number_unsigned()) throw BadRequest("a number is negative or not an integer");
  return json.get<std::uint64_t>();
}

std::chrono::nanoseconds duration(const Json& json) {
  const std::chrono::nanoseconds time{integer(json)};
  if (time < std::chrono::nanoseconds::zero()) throw BadRequest("a duration is negative");
  return time;
}

Path parse_path(const Json& json) {
  std::expected<Path, PathError> path = Path::parse(json.get_ref<const std::string&>());
  if (!path.has_value()) throw BadRequest(std::string{path.error().why});
  return *std::move(path);
}

std::uint32_t count(const Json& json, const char* refusal) {
  const std::int64_t number = integer(json);
  if (number < 1 || number > std::numeric_limits<std::uint32_t>::max()) throw BadRequest(refusal);
  return static_cast<std::uint32_t>(number);
}

Claim parse_claim(const Json& json) {
  if (!json.is_array() || json.empty() || json.size() > 4)
    throw BadRequest("a claim must have 1 to 4 parts");
  const Path path = parse_path(json[0]);
  if (json.size() == 1) return path.exclusive();
  const Path group = parse_path(json[1]);
  if (group.depth() != 1) throw BadRequest("a group must be one segment");
  const std::string_view name = *group.segments().begin();
  if (json.size() == 2) return path.group(name);
  const Claim claim = path.group(name, count(json[2], "a limit must be at least 1"));
  return json.size() == 3 ? claim : claim.take(count(json[3], "a weight must be at least 1"));
}

// Not before 1970: subtracting a time from the present cannot overflow.
Instant instant(const Json& json) {
  return Instant{std::chrono::nanoseconds{std::max<std::int64_t>(integer(json), 0)}};
}

struct Newer {
  std::string why;
};

// Of a format that is known: the key that an anchor names; empty: a session keeps the ticket alive.
std::string parse_anchor(const Json& json) {
  if (const auto format = json.find("format"); format != json.end()) {
    const std::uint64_t number = natural(*format);
    if (number > newest_format) {
      throw Newer{"its format is " + std::to_string(number) +
                  ", and this version reads formats up to " + std::to_string(newest_format)};
    }
  }
  const auto anchor = json.find("anchor");
  if (anchor == json.end()) return {};
  if (!anchor->is_array() || anchor->empty()) throw BadRequest("an anchor must name its kind");
  const std::string kind = (*anchor)[0].get<std::string>();
  if (kind != "key") throw Newer{"this version does not know anchors of the kind '" + kind + "'"};
  if (anchor->size() != 2) throw BadRequest("an anchor must be a kind and a key");
  const Path key = parse_path((*anchor)[1]);
  if (key.depth() != 1) throw BadRequest("an anchor must be one key");
  std::string name{*key.segments().begin()};
  if (name.empty() || name.size() > max_anchor) {
    throw BadRequest("an anchor must have 1 to " + std::to_string(max_anchor) + " bytes");
  }
  return name;
}

// A value with bytes that are not UTF-8 is no JSON. Earlier versions wrote labels as they came.
Json parse_json(const std::string& value) {
  Json json = Json::parse(value, nullptr, false);
  if (json.is_discarded()) json = Json::parse(as_utf8(value));
  return json;
}

std::uint64_t parse_kept(const Json& json, const std::vector<Claim>& claims) {
  const std::uint64_t claim = natural(json);
  if (claim >= claims.size()) throw BadRequest("a kept claim is not there");
  return std::uint64_t{1} << claim;
}

Row parse_ticket(const Json& json) {
  Row row;
  row.anchor = parse_anchor(json);
  row.session = json.at(row.anchored() ? "by" : "session").get<std::string>();
  row.request = natural(json.at("request"));
  if (const auto id = json.find("id"); id != json.end()) {
    if (!row.anchored()) throw BadRequest("a request id needs an anchor");
    row.id = natural(*id);
  }
  for (const Json& claim : json.at("claims")) row.claims.push_back(parse_claim(claim));
  if (const auto fault = find_fault(row.claims)) throw BadRequest(*fault);
  if (const auto kept = json.find("kept"); kept != json.end()) {
    for (const Json& claim : *kept) row.kept |= parse_kept(claim, row.claims);
  }
  if (const auto held = json.find("replaces"); held != json.end()) {
    row.replaces = Token{natural(*held)};
  }
  if (const auto owner = json.find("owner"); owner != json.end())
    row.owner = Owner{parse_path(*owner)};
  if (const auto label = json.find("label"); label != json.end())
    row.label = label->get<std::string>();
  row.since = instant(json.at("since"));
  if (const auto time = json.find("max_hold"); time != json.end()) row.max_hold = duration(*time);
  if (const auto time = json.find("deadline"); time != json.end()) row.deadline = instant(*time);
  row.evicted = json.value("evicted", false);
  row.asked = json.value("asked", false);
  if (const auto number = json.find("number"); number != json.end()) {
    row.number = Token{natural(*number)};
  }
  return row;
}

}  // namespace

void refuse_row(const Entry& entry, const RowFault& fault) {
  const std::optional<RowKey> key = parse_key(entry.key);
  const std::string token = std::to_string(key.has_value() ? key->number.value : 0);
  std::string reason;
  append_escaped(reason, fault.why, {});
  if (fault.newer) {
    throw StoreError("ticket " + token + " was written by a newer version of Tenure (" + reason +
                     "), and is left alone: update this program, or wait until that ticket ends");
  }
  throw StoreError("the entry of ticket " + token + " was not written by Tenure (" + reason +
                   "): find the program that writes to this store, and remove the entry with "
                   "'tenure evict " +
                   token + "'");
}

std::string Row::text() const {
  std::string out;
  out.reserve(160);
  append_head(out,
              least_format(kept != 0 || replaces != Token{}, std::ranges::any_of(claims, weighted),
                           anchored()),
              anchor);
  out += anchored() ? R"(,"by":)" : R"("session":)";
  append_string(out, session);
  out += R"(,"request":)";
  append_number(out, request);
  if (id.has_value()) {
    out += R"(,"id":)";
    append_number(out, *id);
  }
  out += R"(,"claims":[)";
  for (const Claim& claim : claims) {
    if (&claim != claims.data()) out += ',';
    append_claim(out, claim);
  }
  out += ']';
  if (kept != 0) append_kept(out, kept);
  if (replaces != Token{}) {
    out += R"(,"replaces":)";
    append_number(out, replaces.value);
  }
  if (!owner.anonymous()) {
    out += R"(,"owner":)";
    append_string(out, owner.id.text());
  }
  if (!label.empty()) {
    out += R"(,"label":)";
    append_string(out, label);
  }
  out += R"(,"since":)";
  append_number(out, since.time_since_epoch().count());
  if (max_hold.count() != 0) {
    out += R"(,"max_hold":)";
    append_number(out, max_hold.count());
  }
  if (deadline.has_value()) {
    out += R"(,"deadline":)";
    append_number(out, deadline->time_since_epoch().count());
  }
  if (evicted) out += R"(,"evicted":true)";
  if (asked) out += R"(,"asked":true)";
  if (number != Token{}) {
    out += R"(,"number":)";
    append_number(out, number.value);
  }
  return out += '}';
}

std::string Pointer::text() const {
  std::string out;
  append_head(out, least_format(false, weight != 1 || weighted(first), !anchor.empty()), anchor);
  if (anchor.empty()) {
    out += R"("session":)";
    append_string(out, session);
  }
  out += R"(,"first":)";
  append_claim(out, first);
  if (weight != 1) {
    out += R"(,"take":)";
    append_number(out, weight);
  }
  return out += '}';
}

std::expected<Parsed, RowFault> read_row(const Entry& entry) {
  const auto fault = [](std::string why, bool newer = false) {
    return std::unexpected(RowFault{.why = std::move(why), .newer = newer});
  };
  try {
    const Json json = parse_json(entry.value);
    if (!json.is_object()) return fault("it is not a JSON object");
    if (json.contains("claims")) return Parsed{.row = parse_ticket(json), .pointer = {}};
    Pointer pointer;
    pointer.anchor = parse_anchor(json);
    if (pointer.anchor.empty()) pointer.session = json.at("session").get<std::string>();
    pointer.first = parse_claim(json.at("first"));
    if (const auto take = json.find("take"); take != json.end()) {
      pointer.weight = count(*take, "a weight must be at least 1");
    }
    return Parsed{.row = {}, .pointer = std::move(pointer)};
  } catch (const Newer& newer) {
    return fault(newer.why, true);
  } catch (const Json::exception& error) {
    return fault(error.what());
  } catch (const BadRequest& error) {
    return fault(error.what());
  }
}

Parsed parse_row(const Entry& entry) {
  std::expected<Parsed, RowFault> parsed = read_row(entry);
  if (!parsed.has_value()) refuse_row(entry, parsed.error());
  return *std::move(parsed);
}

std::optional<std::uint32_t> weight_in(const Entry& entry) {
  constexpr std::string_view head = R"({"format":)";
  if (!entry.value.starts_with(head) || entry.value[head.size()] < '3') return 1;
  const std::expected<Parsed, RowFault> parsed = read_row(entry);
  if (!parsed.has_value()) return std::nullopt;
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has exactly one of them.
  return parsed->row ? parsed->row->claims.front().mode.weight() : parsed->pointer->weight;
}

std::string claim_text(const Row& row, std::size_t claim) {
  return claim == 0 ? row.text() : shadow_text(row, claim);
}

std::string shadow_text(const Row& row, std::size_t claim) {
  return Pointer{.session = row.anchored() ? std::string{} : row.session,
                 .anchor = row.anchor,
                 .first = row.claims.front(),
                 .weight = row.claims[claim].mode.weight()}
      .text();
}

Guard anchor_guard(const Row& row) {
  return Guard::present(row.anchored() ? row.anchor : std::string{session_prefix} + row.session);
}

void watch_anchor(const Row& row, WatchFor& what) {
  if (row.anchored()) {
    what.ranges.push_back(Range::key(row.anchor));
  } else {
    what.session = row.session;
  }
}

std::string request_key(std::string_view anchor, std::uint64_t id) {
  std::string key{reserved::request_ids};
  key += static_cast<char>(anchor.size() >> 8U);
  key += static_cast<char>(anchor.size() & 0xffU);
  return key.append(anchor).append(stamp(Revision{id}));
}

std::string first_claim_text(const Row& row) {
  std::string out;
  append_claim(out, row.claims.front());
  return out;
}

Claim first_claim_in(const Entry& entry) {
  try {
    return parse_claim(parse_json(entry.value));
  } catch (const std::exception& error) {
    throw StoreError("the entry '" + Path::of(entry.key).text() + "' was not written by Tenure (" +
                     error.what() + "): find the program that writes to this store");
  }
}

SessionRow parse_session(const Entry& entry) {
  Json json = Json::parse(entry.value, nullptr, false);
  if (json.is_discarded()) json = Json::parse(as_utf8(entry.value), nullptr, false);
  if (!json.is_object()) return {};
  SessionRow row;
  if (const auto it = json.find("host"); it != json.end() && it->is_string()) row.host = *it;
  if (const auto it = json.find("pid"); it != json.end() && it->is_number_integer()) row.pid = *it;
  if (const auto it = json.find("label"); it != json.end() && it->is_string()) row.label = *it;
  if (const auto it = json.find("since"); it != json.end() && it->is_number_integer()) {
    const std::int64_t since = *it;
    if (since > 0) row.since = Instant{std::chrono::nanoseconds{since}};
  }
  return row;
}

}  // namespace tenure::stored

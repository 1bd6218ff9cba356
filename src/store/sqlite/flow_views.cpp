#include "store/sqlite/flow_views.hpp"

#include <string_view>

#include "store/common/flow_names.hpp"

namespace tenure::sqlite {
namespace {

// Of the blob `of`, at a place that counts from 1.
std::string byte(std::string_view of, const std::string& at) {
  return "(instr((SELECT bytes FROM tenure_bytes), substr(" + std::string{of} + ", " + at +
         ", 1)) - 1)";
}

// Big endian. All operators on bits bind alike in SQLite, so each has its parentheses.
std::string number(std::string_view of, const std::string& at, int bytes) {
  std::string sql = "(";
  for (int i = 0; i < bytes; ++i) {
    sql += (i == 0 ? "(" : " | (") + byte(of, at + " + " + std::to_string(i)) + " << " +
           std::to_string(8 * (bytes - 1 - i)) + ")";
  }
  return sql + ")";
}

// Seven bits per byte, the lowest first: a 32-bit number has at most five bytes.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the bytes.
std::string varint(std::string_view of, const std::string& at, int index = 0) {
  const std::string here = byte(of, at + " + " + std::to_string(index));
  const std::string shift = std::to_string(7 * index);
  if (index == 4) return "(" + here + " << " + shift + ")";
  return "(CASE WHEN " + here + " < 128 THEN " + here + " << " + shift + " ELSE ((" + here +
         " & 127) << " + shift + ") | " + varint(of, at, index + 1) + " END)";
}

std::string time(std::string_view nanoseconds) {
  return "strftime('%Y-%m-%dT%H:%M:%fZ', " + std::string{nanoseconds} + " / 1e9, 'unixepoch')";
}

std::string text(const std::string& at, const std::string& size) {
  return "CAST(substr(body, parts ->> '$[" + at + "]', parts ->> '$[" + size + "]') AS TEXT)";
}

// Reads one varint after another from `begin` on. `next` is where to go on after the one that ends
// at `at`, `list` is what to note of it, `more` whether there is another one; all may use `total`,
// its value, as $, and `done`, how many there were before. The result is a JSON array of what was
// noted and the place after the last one.
struct Walk {
  std::string begin;
  std::string next;
  std::string list;
  std::string tags = "tags";
  std::string more;
};

std::string with_total(std::string sql) {
  constexpr std::string_view total = "(sum | (byte << shift))";
  for (std::size_t at = 0; (at = sql.find('$', at)) != std::string::npos; at += total.size()) {
    sql.replace(at, 1, total);
  }
  return sql;
}

std::string walk(const Walk& how) {
  const std::string next = with_total("CASE WHEN byte < 128 THEN " + how.next + " ELSE at + 1 END");
  return "(WITH RECURSIVE step(at, byte, done, sum, shift, tags, list) AS ("
         "SELECT " +
         how.begin + ", " + byte("body", how.begin) + ", 0, 0, 0, 0, '[' UNION ALL SELECT " + next +
         ", " + byte("body", next) +
         ", done + (byte < 128),"
         " CASE WHEN byte < 128 THEN 0 ELSE sum | ((byte & 127) << shift) END,"
         " CASE WHEN byte < 128 THEN 0 ELSE shift + 7 END," +
         with_total(" CASE WHEN byte < 128 THEN " + how.tags + " ELSE tags END,") +
         with_total(" CASE WHEN byte < 128 THEN list || " + how.list + " ELSE list END") +
         " FROM step WHERE at <= length(body) AND " + how.more +
         ") SELECT list || at || ']' FROM step WHERE NOT (" + how.more + "))";
}

// Scope, sequence, attempt and length of the name, then where the name begins.
std::string log_view() {
  const std::string parts =
      walk({.begin = "19", .next = "at + 1", .list = "$ || ','", .more = "done < 4"});
  const std::string size = "(size & 32767)";  // The high bit: a later run, whose number follows.
  return "CREATE VIEW tenure_flow_log AS SELECT CAST(substr(place, 7, " + size +
         ") AS TEXT) AS workflow, CASE WHEN size > 32767 THEN " +
         number("place", "7 + " + size, 4) + " ELSE 0 END AS run, " +
         number("place", "length(place) - 3", 4) + " AS number, " + time(number("body", "3", 8)) +
         " AS time, CASE " + byte("body", "2") + std::string{stored_flow::kind_branches} +
         "AS kind, " + text("4", "3") +
         " AS name, parts ->> '$[0]' AS scope, parts ->> '$[1]' AS sequence,"
         " parts ->> '$[2]' AS attempt,"
         " CAST(substr(body, (parts ->> '$[4]') + (parts ->> '$[3]')) AS TEXT) AS value "
         "FROM (SELECT place, body, size, header.value AS parts FROM "
         "(SELECT key AS place, value AS body, " +
         number("key", "5", 2) +
         " AS size FROM entry WHERE key >= x'116c' AND key < x'116d'),"
         " json_each(json_array(json(" +
         parts + "))) AS header);\n";
}

// Type, idempotency key, place, parent; the number of tags; their names and values; input, result.
// Of each text where it begins and its length.
std::string record_view() {
  const std::string begin = "rest + 1";
  const std::string parts =
      walk({.begin = begin,
            .next = "CASE WHEN done = 4 THEN at + 1 ELSE at + 1 + $ END",
            .list = "CASE WHEN done = 4 THEN '' ELSE (at + 1) || ',' || $ || ',' END",
            .tags = "CASE WHEN done = 4 THEN $ ELSE tags END",
            .more = "(done < 5 OR done < 7 + 2 * tags)"});
  const auto optional = [](const std::string& at) {
    return "CASE WHEN " + byte("body", at) + " = 1 THEN " + time(number("body", at + " + 1", 8)) +
           " END";
  };
  // The part of the run has the number 1 and is the first one.
  const std::string after = "(parts ->> '$[#-1]')";
  return "CREATE VIEW tenure_flows AS SELECT CAST(substr(place, 5) AS TEXT) AS id, " +
         text("0", "1") +
         " AS type, CASE WHEN state = 1 AND starts > created"
         " AND starts / 1e9 > (julianday('now') - 2440587.5) * 86400 THEN 'scheduled'"
         " ELSE CASE state" +
         std::string{stored_flow::state_branches} + "END AS state, " + time("created") +
         " AS created, " + time("starts") + " AS starts, " + optional("27") + " AS deadline, " +
         optional("ended") + " AS ended, CASE " + byte("body", after) + " WHEN 1 THEN " +
         varint("body", after + " + 2") +
         " ELSE 0 END AS run, (SELECT json_group_object(CAST(substr(body, tag.value,"
         " parts ->> ('$[' || (tag.key + 1) || ']')) AS TEXT), CAST(substr(body,"
         " parts ->> ('$[' || (tag.key + 2) || ']'), parts ->> ('$[' || (tag.key + 3) || ']'))"
         " AS TEXT)) FROM json_each(parts) AS tag WHERE tag.key >= 8 AND tag.key % 4 = 0"
         " AND tag.key < json_array_length(parts) - 5) AS tags, " +
         text("#-5", "#-4") + " AS input, nullif(" + text("#-3", "#-2") +
         ", '') AS result FROM (SELECT place, body, state, created, starts, ended, header.value AS "
         "parts "
         "FROM (SELECT *, ended + CASE " +
         byte("body", "ended") +
         " WHEN 1 THEN 8 ELSE 0 END AS rest FROM (SELECT key AS place, value AS body, " +
         byte("value", "2") + " AS state, " + number("value", "11", 8) + " AS created, " +
         number("value", "19", 8) + " AS starts, 28 + CASE " + byte("value", "27") +
         " WHEN 1 THEN 8 ELSE 0 END AS ended FROM entry WHERE key >= x'1177' AND key < x'1178')),"
         " json_each(json_array(json(" +
         parts + "))) AS header);\n";
}

}  // namespace

std::string flow_views_sql() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string all;
  for (const char high : digits) {
    for (const char low : digits) (all += high) += low;
  }
  return "DROP VIEW IF EXISTS tenure_flow_log; DROP VIEW IF EXISTS tenure_flows;"
         " DROP VIEW IF EXISTS tenure_bytes;\n"
         "CREATE VIEW tenure_bytes AS SELECT x'" +
         all + "' AS bytes;\n" + log_view() + record_view();
}

}  // namespace tenure::sqlite

#include "tests/stress/aftermath.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <memory>

#include "tenure/space.hpp"

namespace tenure::stress {
namespace {

using Rows = std::vector<std::string>;

// The first column of each row; an error is a row too.
Rows ask(const std::string& database, const char* sql) {
  sqlite3* opened = nullptr;
  const int status = ::sqlite3_open_v2(database.c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> connection{opened, ::sqlite3_close};
  if (status != SQLITE_OK) return {"can't open " + database};
  ::sqlite3_busy_timeout(opened, 10'000);
  Rows rows;
  const auto take = [](void* to, int columns, char** values, char** /*names*/) {
    static_cast<Rows*>(to)->emplace_back(columns > 0 && values[0] != nullptr ? values[0] : "");
    return 0;
  };
  char* error = nullptr;
  if (::sqlite3_exec(opened, sql, take, &rows, &error) != SQLITE_OK) {
    rows.emplace_back(error != nullptr ? error : "an error without a name");
  }
  ::sqlite3_free(error);
  return rows;
}

// Tickets and pointers to them whose session is not recorded: no process would ever remove those.
constexpr const char* strays = R"sql(
SELECT quote(key) || ' ' || CAST(value AS TEXT) FROM entry
WHERE key < x'03' AND
      CAST(x'03' || (CAST(value AS TEXT) ->> '$.session') AS BLOB) NOT IN
        (SELECT key FROM entry WHERE key >= x'03' AND key < x'04')
)sql";
constexpr const char* everything = R"sql(
SELECT quote(key) || ' ' || CAST(value AS TEXT) FROM entry WHERE key < x'20' ORDER BY key
)sql";

void add(Rows& all, const std::string& what, const Rows& rows) {
  for (const std::string& row : rows) all.push_back(what + ": " + row);
}

}  // namespace

std::vector<std::string> look_at_remains(const std::string& database) {
  Rows wrong;
  add(wrong, "left behind by a process that ended as it should", ask(database, strays));
  {
    const Space space = open("sqlite:" + database);
    for (const TicketInfo& info : space.inspect()) {
      wrong.push_back("still a ticket: " + std::to_string(info.ticket.number.value) + ' ' +
                      info.ticket.claims.front().text());
    }
    Rows rows = ask(database, everything);
    if (rows.size() != 1 || !rows.front().starts_with("X'03")) {
      add(wrong, "in the database besides our session", rows);
    }
  }
  Rows integrity = ask(database, "PRAGMA integrity_check");
  std::erase(integrity, "ok");
  add(wrong, "integrity_check", integrity);
  return wrong;
}

std::string describe(const std::string& database) {
  std::string out;
  try {
    const Space space = open("sqlite:" + database);
    for (const TicketInfo& info : space.inspect()) {
      out += std::to_string(info.ticket.number.value) + (info.granted ? " holds" : " waits") +
             " pid " + std::to_string(info.pid) + ' ' + info.label + ' ' + info.ticket.owner.text();
      for (const Claim& claim : info.ticket.claims) out += ' ' + claim.text();
      if (info.deadline.has_value()) out += " (deadline)";
      for (const Token& token : info.blocked_by) out += " <-" + std::to_string(token.value);
      out += '\n';
    }
  } catch (const std::exception& error) {
    out += error.what();
  }
  return out;
}

}  // namespace tenure::stress

#include "store/postgres/url.hpp"

#include <libpq-fe.h>

#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::postgres {
namespace {

struct FreeOptions {
  void operator()(PQconninfoOption* options) const noexcept { PQconninfoFree(options); }
};
struct FreeText {
  void operator()(char* text) const noexcept { PQfreemem(text); }
};

// A peer that disappears is detected after 15 seconds of silence, or when sent data was not
// acknowledged for 10 seconds. A middlebox that acknowledges data and swallows it is detected as
// well (executor.hpp). Tickets can't be written to a standby.
constexpr std::array<std::pair<const char*, const char*>, 8> defaults = {{
    {"connect_timeout", "5"},
    {"keepalives", "1"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "5"},
    {"keepalives_count", "2"},
    {"tcp_user_timeout", "10000"},
    {"target_session_attrs", "read-write"},
    {"fallback_application_name", "tenure"},
}};

// A quotation in a message of libpq may contain a part of the password.
std::string without_quotes(std::string_view text) {
  std::string plain;
  bool inside = false;
  for (const char c : text) {
    if (c == '"') {
      inside = !inside;
      if (inside) plain += "...";
    } else if (!inside && c != '\n') {
      plain += c;
    }
  }
  return plain;
}

void take_own(Target& target, std::string_view parameter) {
  const std::size_t equals = parameter.find('=');
  const std::string_view name = parameter.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view{} : parameter.substr(equals + 1);
  if (name != "tenure_schema") {
    throw Error("the PostgreSQL URL has an unknown parameter '" + std::string{name} +
                "': Tenure's only own parameter is tenure_schema");
  }
  if (value.empty() || value.size() > max_schema_size ||
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
          std::string_view::npos) {
    throw Error("tenure_schema in the PostgreSQL URL must have 1 to " +
                std::to_string(max_schema_size) + " characters: letters, digits, '_' and '-'");
  }
  target.schema = value;
}

// The URL without our own parameters, which libpq would refuse.
std::string for_libpq(Target& target, std::string_view url) {
  const std::size_t mark = url.find('?');
  std::string rest{url.substr(0, mark)};
  if (mark == std::string_view::npos) return rest;
  char separator = '?';
  for (std::string_view query = url.substr(mark + 1); !query.empty();) {
    const std::size_t end = query.find('&');
    const std::string_view one = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view{} : query.substr(end + 1);
    if (one.starts_with("tenure_")) {
      take_own(target, one);
    } else {
      (rest += std::exchange(separator, '&')) += one;
    }
  }
  return rest;
}

std::string value_of(const Target& target, std::string_view name) {
  for (std::size_t i = 0; i < target.names.size(); ++i) {
    if (target.names[i] == name) return target.values[i];
  }
  return {};
}

// If libpq can't parse the value, it says so when it connects.
std::optional<std::chrono::milliseconds> silence_of(const Target& target) {
  const std::string text = value_of(target, "tcp_user_timeout");
  int time = 0;
  std::from_chars(text.data(), text.data() + text.size(), time);
  if (time <= 0) return std::nullopt;
  return std::chrono::milliseconds{time};
}

std::string show(const Target& target) {
  const auto value = [&](std::string_view name) { return value_of(target, name); };
  std::string text = "postgres://";
  if (const std::string user = value("user"); !user.empty()) (text += user) += '@';
  text += value("host").empty() ? value("hostaddr") : value("host");
  if (const std::string port = value("port"); !port.empty()) (text += ':') += port;
  if (const std::string name = value("dbname"); !name.empty()) (text += '/') += name;
  return text;
}

// libpq takes everything between the first '@' and a '/' as the host, and shows it. Of a password
// with a reserved character it would show a part.
void refuse_stray_mark(std::string_view url) {
  const std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t at = rest.substr(0, rest.find('/')).find('@');
  const std::string_view who = at == std::string_view::npos ? "" : rest.substr(0, at);
  std::string_view where = at == std::string_view::npos ? rest : rest.substr(at + 1);
  where = where.substr(0, where.find('?'));
  if (where.contains('@') || who.substr(0, who.find(':')).contains('?')) {
    throw Error(
        "the PostgreSQL URL has an '@' too many: in a user name, a password or a parameter write "
        "%40 for '@', %2F for '/' and %3F for '?'");
  }
}

}  // namespace

std::string Target::quoted_schema() const { return '"' + schema + '"'; }

std::string Target::in_schema(std::string_view sql) const {
  std::string text;
  for (const char c : sql) {
    if (c == '@') {
      text += quoted_schema();
    } else {
      text += c;
    }
  }
  return text;
}

std::string Target::hide(std::string text) const {
  for (const std::string& secret : secrets) {
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos;) {
      text.replace(at, secret.size(), "***");
      at += 3;
    }
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (std::size_t at = 0; (at = text.find_first_of("\n\t", at)) != std::string::npos;) {
    text.replace(at, text.find_first_not_of("\n\t ", at) - at, "; ");
  }
  return text;
}

Target parse_url(std::string_view url) {
  Target target;
  target.schema = default_schema;
  refuse_stray_mark(url);
  const std::string plain = for_libpq(target, url);
  char* reason = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> options{
      PQconninfoParse(plain.c_str(), &reason)};
  const std::unique_ptr<char, FreeText> text{reason};
  if (!options) {
    throw Error("the PostgreSQL URL is not valid (" + without_quotes(text ? text.get() : "") +
                "): write postgres://user:password@host:port/database?parameter=value, and %XX "
                "for reserved characters");
  }
  const auto set = [&](const char* name, const char* value) {
    target.names.emplace_back(name);
    target.values.emplace_back(value);
  };
  for (const PQconninfoOption* one = options.get(); one->keyword != nullptr; ++one) {
    if (one->val == nullptr || *one->val == '\0') continue;
    set(one->keyword, one->val);
    if (*one->dispchar == '*') target.secrets.emplace_back(one->val);
  }
  for (const auto& [name, value] : defaults) {
    bool there = false;
    for (const std::string& given : target.names) there = there || given == name;
    if (!there) set(name, value);
  }
  if (value_of(target, "port").find_first_not_of("0123456789,") != std::string::npos) {
    throw Error(  // Without a host, a password takes the position of the port.
        "the PostgreSQL URL has a port that is not a number: write "
        "postgres://user:password@host:port/database");
  }
  target.shown = show(target);
  target.silence = silence_of(target);
  return target;
}

}  // namespace tenure::postgres

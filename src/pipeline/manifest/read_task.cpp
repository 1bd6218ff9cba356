#include "pipeline/manifest/read_task.hpp"

#include <algorithm>

#include "tenure/claim.hpp"

namespace tenure::pipeline {
namespace {

constexpr std::size_t max_locks = 64;

Retry read_retry(const Table& table) {
  Retry retry;
  retry.max = table.count("max").value_or(0);
  if (const auto base = table.duration("base")) retry.base = *base;
  if (const auto cap = table.duration("cap")) retry.cap = *cap;
  if (retry.base > retry.cap) {
    table.scope().fail(table.position(), "`base` of `retry` is longer than `cap`: swap them");
  }
  return retry;
}

Check read_check(const Table& table, bool repeats) {
  Check check;
  const std::optional<Text> http = table.text("http");
  const std::optional<Invocation> run = table.run("run");
  const std::optional<std::uint32_t> status = table.count("status");
  if (http.has_value() == run.has_value()) {
    table.scope().fail(table.position(), "a check has either `http` or `run`: use one of them");
  }
  if (run) {
    if (status) {
      table.scope().fail(table.position_of_key("status"), "`status` belongs to `http`: remove it");
    }
    check.what = *run;
  } else {
    if (!http->text.starts_with("http://") && !http->text.starts_with("https://")) {
      table.scope().fail(http->position, in_quotes(http->text) +
                                             " is not an HTTP address: begin with http:// or "
                                             "https://");
    }
    check.what = HttpCheck{.url = http->text, .status = status.value_or(HttpCheck{}.status)};
  }
  if (const auto timeout = table.duration("timeout")) check.timeout = *timeout;
  if (!repeats) return check;
  if (const auto every = table.duration("every")) check.every = *every;
  return check;
}

std::vector<Claim> read_locks(const Table& table, const std::vector<Text>& texts) {
  std::vector<Claim> claims;
  for (const Text& one : texts) {
    auto claim = Claim::parse(one.text);
    if (!claim) table.scope().fail(one.position, "`locks`: " + claim.error());
    if (std::ranges::find(claims, claim->path, &Claim::path) != claims.end()) {
      table.scope().fail(one.position, "`locks` has the path " + in_quotes(claim->path.text()) +
                                           " twice: keep one of the claims");
    }
    claims.push_back(*std::move(claim));
  }
  if (claims.size() > max_locks) {
    table.scope().fail(table.position_of_key("locks"),
                       "`locks` has more than 64 claims: claim a "
                       "path above them");
  }
  return claims;
}

void read_env(const Table& table, Task& task) {
  for (auto& [name, value] : table.values("env")) {
    if (name.text.empty() || name.text.contains('=') || name.text.contains('\0')) {
      table.scope().fail(name.position, in_quotes(name.text) +
                                            " can't be the name of an environment variable: use "
                                            "letters, digits and _");
    }
    task.env.insert_or_assign(name.text, std::move(value));
  }
}

// The keys that [defaults] may have too.
void read_common(const Table& table, Task& task) {
  if (const auto timeout = table.duration("timeout")) task.timeout = timeout;
  if (const auto grace = table.duration("grace", true)) task.grace = *grace;
  if (const auto retry = table.table("retry", Section::retry)) task.retry = read_retry(*retry);
  if (const auto locks = table.texts("locks")) task.locks = read_locks(table, *locks);
  read_env(table, task);
  if (const auto dir = table.text("dir")) task.dir = dir->text;
  if (const auto tags = table.texts("tags")) {
    task.tags.clear();
    for (const Text& tag : *tags) {
      if (tag.text.empty()) table.scope().fail(tag.position, "a tag is empty: remove it");
      if (std::ranges::count(task.tags, tag.text) == 0) task.tags.push_back(tag.text);
    }
  }
}

void read_when(const Table& table, Task& task) {
  const toml::node* const when = table.node("when");
  if (when == nullptr) return;
  if (when->is_string()) {
    task.skip = !table.scope().is_true(when->as_string()->get(), position_of(*when));
  } else if (when->is_table()) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it is a table.
    task.when = read_check(*table.table("when", Section::check), false);
  } else {
    table.wrong_type("when", *when);
  }
}

}  // namespace

ReadTask read_task(const Scope& scope, const toml::table& task, Position position,
                   const toml::table* defaults) {
  ReadTask out;
  out.task.name = scope.task;
  out.task.position = position;
  if (defaults != nullptr) {
    read_common(Table{scope, Section::defaults, *defaults, position_of(*defaults)}, out.task);
  }
  const Table table{scope, Section::task, task, position};
  read_common(table, out.task);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a required key.
  out.task.run = *table.run("run");
  if (auto needs = table.texts("needs")) out.needs = *std::move(needs);
  for (const Table& edit : table.tables("edits", Section::edit)) {
    out.task.edits.push_back(read_edit(edit));
  }
  if (const auto done = table.table("done", Section::check)) {
    out.task.done = read_check(*done, false);
  }
  if (const auto verify = table.table("verify", Section::verify)) {
    out.task.verify = read_check(*verify, true);
  }
  read_when(table, out.task);
  out.task.once = table.flag("once").value_or(false);
  return out;
}

}  // namespace tenure::pipeline

#include <nlohmann/json.hpp>

#include "pipeline/manifest.hpp"

namespace tenure::pipeline {
namespace {

using TextJson = nlohmann::ordered_json;

TextJson json_of_run(const Invocation& run) {
  return run.shell ? TextJson(run.words.front()) : TextJson(run.words);
}

TextJson json_of_check(const Check& check) {
  TextJson out;
  if (const auto* http = std::get_if<HttpCheck>(&check.what)) {
    out["http"] = http->url;
    out["status"] = http->status;
  } else {
    out["run"] = json_of_run(std::get<Invocation>(check.what));
  }
  out["timeout"] = check.timeout.count();
  out["every"] = check.every.count();
  return out;
}

TextJson json_of_edit(const Edit& edit) {
  TextJson out{{"file", edit.file}, {"format", static_cast<int>(edit.format)}};
  for (const Edit::Set& one : edit.set) out["set"].push_back({one.key, one.value});
  for (const Edit::Replace& one : edit.replace) out["replace"].push_back({one.from, one.to});
  return out;
}

}  // namespace

std::string task_text(const Task& task) {
  TextJson out;
  out["run"] = json_of_run(task.run);
  out["needs"] = task.needs;
  if (task.timeout) out["timeout"] = task.timeout->count();
  out["grace"] = task.grace.count();
  out["retry"] = {task.retry.max, task.retry.base.count(), task.retry.cap.count()};
  out["locks"] = TextJson::array();
  for (const Claim& claim : task.locks) out["locks"].push_back(claim.text());
  out["edits"] = TextJson::array();
  for (const Edit& edit : task.edits) out["edits"].push_back(json_of_edit(edit));
  if (task.done) out["done"] = json_of_check(*task.done);
  if (task.verify) out["verify"] = json_of_check(*task.verify);
  if (task.when) out["when"] = json_of_check(*task.when);
  out["skip"] = task.skip;
  out["env"] = task.env;
  out["dir"] = task.dir;
  out["tags"] = task.tags;
  out["once"] = task.once;
  return out.dump();
}

}  // namespace tenure::pipeline

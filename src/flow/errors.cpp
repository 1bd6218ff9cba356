// What is stored of an exception, and what is made of that again.
#include <cxxabi.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>
#include <typeinfo>

#include "tenure/flow_error.hpp"

namespace tenure {
namespace {

std::string class_name(const std::exception& error) {
  const char* const mangled = typeid(error).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name{
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free};
  return status == 0 ? name.get() : mangled;
}

}  // namespace

std::string ErrorInfo::text() const {
  // A message may have any bytes.
  return nlohmann::json{{"type", type}, {"code", code}, {"message", message}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ErrorInfo ErrorInfo::parse(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.type = json.at("type").get<std::string>(),
          .code = json.at("code").get<std::string>(),
          .message = json.at("message").get<std::string>()};
}

std::string_view text_of(FlowState state) noexcept {
  switch (state) {
    case FlowState::scheduled: return "scheduled";
    case FlowState::running: return "running";
    case FlowState::completed: return "completed";
    case FlowState::failed: return "failed";
    case FlowState::cancelled: return "cancelled";
    case FlowState::timed_out: return "timed-out";
    case FlowState::queued: return "queued";
  }
  return "unknown";
}

namespace detail {

ErrorInfo ErrorTypes::describe(const std::exception_ptr& error) const {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    for (const auto& [name, type] : types_) {
      if (type.is(caught)) {
        return {.type = name, .code = type.code(caught), .message = caught.what()};
      }
    }
    if (const auto* failed = dynamic_cast<const StepFailed*>(&caught)) {
      return {.type = failed->info().type, .code = failed->info().code, .message = caught.what()};
    }
    ErrorInfo info{.type = class_name(caught), .code = {}, .message = caught.what()};
    if (const auto* system = dynamic_cast<const std::system_error*>(&caught)) {
      info.code = std::string{system->code().category().name()} + ":" +
                  std::to_string(system->code().value());
    }
    return info;
  } catch (const Cancelled&) {
    return {.type = "cancelled", .code = {}, .message = "cancelled"};
  } catch (...) {
    return {.type = "unknown", .code = {}, .message = "an exception that is no std::exception"};
  }
}

void ErrorTypes::raise(const std::string& step, const ErrorInfo& info) const {
  if (const auto at = types_.find(info.type); at != types_.end()) at->second.raise(info);
  throw StepFailed(step, info);
}

}  // namespace detail
}  // namespace tenure

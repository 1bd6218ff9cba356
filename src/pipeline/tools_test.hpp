// tools_test.hpp: what the tests of pipelines share.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>

#include "tenure/pipeline.hpp"

namespace tenure {

// What ran, in order.
class Log {
 public:
  auto task(const std::string& name) {
    return [this, name] { note(name); };
  }
  void note(const std::string& name) {
    const std::scoped_lock lock{mutex_};
    text_ += (text_.empty() ? "" : " ") + name;
  }
  std::string text() const {
    const std::scoped_lock lock{mutex_};
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// "a=done b=failed …" in the order of adding.
inline std::string ends(const Pipeline& pipeline, const PipelineResult& result,
                        std::uint32_t count) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : " ") + pipeline.name({i}) + "=" + std::string{text_of(result.end({i}))};
  }
  return text;
}

[[noreturn]] inline void fail() { throw std::runtime_error("broken"); }

inline std::string message(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

}  // namespace tenure

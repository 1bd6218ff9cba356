// demo_process.hpp: this program as another process of the demo, with its output in a pipe.
//
// Thread safety: none.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "process/descriptor.hpp"

namespace tenure::cli {

class DemoProcess {
 public:
  // `tenure WORDS...`; its state is in `directory`, since it is not one of the user's. Throws
  // std::system_error.
  DemoProcess(std::vector<std::string> words, const std::string& directory);
  DemoProcess(const DemoProcess&) = delete;
  DemoProcess& operator=(const DemoProcess&) = delete;
  ~DemoProcess() { kill(); }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // Nothing at the end. Throws Error after ten seconds without a line.
  [[nodiscard]] std::optional<std::string> next_line();
  void kill();

 private:
  pid_t pid_ = -1;
  process::Descriptor output_;
  std::string text_;
};

}  // namespace tenure::cli

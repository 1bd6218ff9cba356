// pipeline_stream.hpp: `--stream`: the output of tasks while they run, whole lines only, each with
// the name of its task.
//
// Commands write to their files, as without --stream, and never wait for us: inotify says when
// there is something to read.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/plan.hpp"
#include "process/descriptor.hpp"

namespace tenure::cli {

class OutputStream {
 public:
  using Print = std::function<void(pipeline::Index task, const std::string& line)>;

  // `files` by task, all in `directory`, which exists. Throws std::system_error.
  OutputStream(const std::string& directory, std::vector<std::string> files, Print print);

  // Readable when a task has written something.
  [[nodiscard]] int descriptor() const noexcept { return notices_.get(); }
  // Prints what is new of these tasks.
  void read(const std::vector<pipeline::Index>& running);
  // The task has ended: prints the rest, with a last line that does not end.
  void finish(pipeline::Index task);

 private:
  struct File {
    std::string path;
    std::int64_t read = 0;  // Bytes.
    std::string part;       // Of a line.
  };
  void read_new(pipeline::Index task);

  process::Descriptor notices_;
  std::vector<File> files_;
  Print print_;
};

}  // namespace tenure::cli

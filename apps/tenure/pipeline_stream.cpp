#include "pipeline_stream.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace tenure::cli {
namespace {

// A line without an end is printed in parts of this size.
constexpr std::size_t longest_line = 65'536;

}  // namespace

OutputStream::OutputStream(const std::string& directory, std::vector<std::string> files,
                           Print print)
    : notices_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), print_(std::move(print)) {
  if (notices_.get() < 0 || ::inotify_add_watch(notices_.get(), directory.c_str(), IN_MODIFY) < 0) {
    process::fail_system("inotify");
  }
  for (std::string& file : files) {
    struct stat status{};  // What an earlier run wrote is not new.
    const std::int64_t size = ::stat(file.c_str(), &status) == 0 ? status.st_size : 0;
    files_.push_back({.path = std::move(file), .read = size, .part = {}});
  }
}

void OutputStream::read(const std::vector<pipeline::Index>& running) {
  std::array<char, 4096> notices{};
  while (::read(notices_.get(), notices.data(), notices.size()) > 0) {
    // Which file it was does not matter: only a few tasks run.
  }
  for (const pipeline::Index task : running) read_new(task);
}

void OutputStream::finish(pipeline::Index task) {
  read_new(task);
  File& file = files_[task];
  if (!file.part.empty()) print_(task, std::exchange(file.part, {}));
}

void OutputStream::read_new(pipeline::Index task) {
  File& file = files_[task];
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const process::Descriptor in{::open(file.path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (in.get() < 0) return;  // It has written nothing yet.
  std::array<char, 16'384> bytes{};
  for (;;) {
    const ssize_t size = ::pread(in.get(), bytes.data(), bytes.size(), file.read);
    if (size <= 0) return;
    file.read += size;
    for (const char byte : std::string_view{bytes.data(), static_cast<std::size_t>(size)}) {
      if (byte != '\n') file.part += byte;
      if (byte == '\n' || file.part.size() >= longest_line) {
        print_(task, std::exchange(file.part, {}));
      }
    }
  }
}

}  // namespace tenure::cli

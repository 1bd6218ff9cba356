#include "process/own_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace tenure::process {
namespace {

constexpr int first_own_number = 64;

bool is_close_on_exec(int number) {
  const int flags = ::fcntl(number, F_GETFD);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  return flags >= 0 && (flags & FD_CLOEXEC) != 0;
}

// Every one beyond the standard ones.
std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory{::opendir("/proc/self/fd"), &::closedir};
  if (directory == nullptr) return numbers;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this stream.
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = &entry->d_name[0];
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number > STDERR_FILENO && number != ::dirfd(directory.get())) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Descriptor lift(Descriptor descriptor) {
  if (descriptor.get() < 0 || descriptor.get() >= first_own_number) return descriptor;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  Descriptor higher{::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, first_own_number)};
  return higher.get() >= 0 ? std::move(higher) : std::move(descriptor);
}

void close_files_of_owner(std::span<const int> own) {
  for (const int number : open_descriptors()) {
    if (is_close_on_exec(number) && std::ranges::find(own, number) == own.end()) ::close(number);
  }
}

void close_inherited_files() {
  const Descriptor null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (null.get() >= 0) ::dup2(null.get(), standard);
  }
  for (const int number : open_descriptors()) {
    if (!is_close_on_exec(number)) ::close(number);
  }
  [[maybe_unused]] const int changed = ::chdir("/");
}

}  // namespace tenure::process

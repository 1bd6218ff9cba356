#include "tests/museum/witness.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <iterator>

#include "tests/kit/patience.hpp"

namespace tenure::museum {

void expect_success(Processes& processes) {
  for (const auto& process : processes) EXPECT_EQ(process->exit_status(), 0);
}

File::~File() {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks{"/proc/self/task"};
    return std::distance(begin(tasks), end(tasks));
  };
  kit::until([&] { return threads() == 1; });
}

bool Witness::enter(Token token) {
  const int file = ::open(marker_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  const bool alone = state_->inside.fetch_add(1) == 0;
  state_->entered.fetch_add(1);
  return file >= 0 && alone && state_->last.exchange(token.value) < token.value;
}

bool Witness::leave() {
  const bool alone = state_->inside.fetch_sub(1) == 1;
  return ::unlink(marker_.c_str()) == 0 && alone;
}

void Witness::died() noexcept {
  state_->inside.store(0);
  ::unlink(marker_.c_str());
}

}  // namespace tenure::museum

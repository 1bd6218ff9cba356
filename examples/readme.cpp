#include <tenure/tenure.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

namespace {

const tenure::Name deploy{"deploy"};

void second_process(tenure::Token first_token) {
  const tenure::Space space = tenure::open("sqlite:ops.db");
  const tenure::Hold hold = space.lock(deploy("prod"));  // sleeps until it is next in line
  std::cout << "second: deploys, token is larger: " << (hold.token() > first_token) << '\n';
  std::raise(SIGKILL);  // dies without releasing the lock
}

}  // namespace

int main() {
  std::cout << std::unitbuf << std::boolalpha;
  const tenure::Space space = tenure::open("sqlite:ops.db");
  tenure::Hold hold = space.lock(deploy("prod"));

  const pid_t child = fork();
  if (child == 0) second_process(hold.token());
  std::cout << "first:  deploys\n";
  hold.release();  // wakes the second process, if it waits by now
  waitpid(child, nullptr, 0);

  hold = space.lock(deploy("prod"));  // the kernel has released the lock of the dead process
  std::cout << "first:  deploys again\n";
}

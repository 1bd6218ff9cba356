#include "tests/kit/redis.hpp"

#include <string>

namespace tenure::kit {

Redis::Redis() : Server("redis", free_port()) {
  set_program({.words = {"redis-server", "--port", std::to_string(port()), "--bind", "127.0.0.1",
                         "--save", "", "--appendonly", "no", "--dir", directory().path().string()}},
              SIGKILL);
  start();
  await_ready();
}

bool Redis::ready() const { return accepts_connections("127.0.0.1", port()); }

}  // namespace tenure::kit

// redis.hpp: the lock that Redis documents: SET NX PX, and a script that deletes the key if it is
// still ours.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "tests/kit/redis.hpp"

struct redisContext;

namespace tenure::bench::stored {

class Redis {
 public:
  // Null if the server is not installed. Throws std::runtime_error if it does not start.
  [[nodiscard]] static std::unique_ptr<Redis> start();

  void lock();
  void unlock();
  [[nodiscard]] pid_t server() const noexcept { return server_.pid(); }

 private:
  struct Disconnect {
    void operator()(redisContext* context) const noexcept;
  };
  Redis();

  kit::Redis server_;
  std::unique_ptr<redisContext, Disconnect> connection_;
  std::string script_;  // Its hash: the server has the text.
};

}  // namespace tenure::bench::stored

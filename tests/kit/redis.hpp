// redis.hpp: a Redis server that writes nothing to disk.
#pragma once

#include "tests/kit/server.hpp"

namespace tenure::kit {

class Redis : public Server {
 public:
  Redis();
  [[nodiscard]] static bool available() { return find_program("redis-server").has_value(); }
  [[nodiscard]] bool ready() const override;
};

}  // namespace tenure::kit

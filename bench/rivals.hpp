// rivals.hpp: what people use today for one lock per key.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

namespace tenure::bench {

// The usual one. It never removes a key.
class MapOfMutexes {
 public:
  std::mutex& at(const std::string& key) {
    const std::scoped_lock lock{outer_};
    return mutexes_[key];
  }

 private:
  std::mutex outer_;
  std::unordered_map<std::string, std::mutex> mutexes_;
};

}  // namespace tenure::bench

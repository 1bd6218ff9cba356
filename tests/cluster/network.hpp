// network.hpp: machines on a private network: network namespaces, joined by a router that can drop
// packets between any two of them.
//
//   Network network{4};
//   network.cut(0, 2);       // Silently, both ways: nobody is told.
//   if (::fork() == 0) {
//     network.enter(3);      // The child is on that machine now, for good.
//
//   machine 0: 10.77.0.1 ---.
//   machine 1: 10.77.1.1 --- router: the test itself, which reaches all of them, always
//   machine 2: 10.77.2.1 ---'
//
// Nothing has a name: a namespace ends with its last process and descriptor, so nothing is left
// behind, however the test ends. The process of the test leaves its former network; nothing gets
// out of here.
//
// Needs root, or a kernel that allows user namespaces for everybody. Created by a process with one
// thread.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tenure::cluster {

class Network {
 public:
  explicit Network(std::size_t machines);  // Throws Error that says what is missing.
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  [[nodiscard]] std::size_t size() const noexcept { return machines_.size(); }
  [[nodiscard]] static std::string address(std::size_t machine);
  // Moves this process to the machine; throws if that fails.
  void enter(std::size_t machine) const;

  // Drops everything that one machine sends to the other.
  void lose(std::size_t from, std::size_t to);
  void cut(std::size_t one, std::size_t other);  // Both ways.
  void cut_off(std::size_t machine);             // From all others.
  void heal();                                   // All of it.

 private:
  std::vector<int> machines_;  // Descriptors of their namespaces.
  std::vector<std::pair<std::size_t, std::size_t>> lost_;
};

}  // namespace tenure::cluster

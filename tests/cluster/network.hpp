// network.hpp: machines on a network that only the test knows: namespaces of the kernel, joined by
// a router, which can be told to lose what one sends to another.
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
// Nothing has a name: a namespace goes with the last process and descriptor that it has, so nothing
// is left behind, however the test ends. The test's own process leaves the network that it was in;
// nothing gets out of here.
//
// Needs rights: root's, or a kernel that lets everybody have user namespaces. Made by a process of
// one thread.
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
  // This process is there from now on; throws where that can't be.
  void enter(std::size_t machine) const;

  // What one sends to the other is lost.
  void lose(std::size_t from, std::size_t to);
  void cut(std::size_t one, std::size_t other);  // Both ways.
  void cut_off(std::size_t machine);             // From all others.
  void heal();                                   // All of it.

 private:
  std::vector<int> machines_;  // Descriptors of their namespaces.
  std::vector<std::pair<std::size_t, std::size_t>> lost_;
};

}  // namespace tenure::cluster

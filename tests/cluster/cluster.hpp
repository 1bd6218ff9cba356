// cluster.hpp: three etcd servers, each on a machine of its own, and faults for them.
//
//   Cluster cluster{2};                               // With two more machines, for clients.
//   kit::Process client{cluster.on(0, kit::lock_client())};
//   cluster.node(cluster.leader()).kill();
//
// Machines of the network: 0 to 2 are the nodes, the following ones belong to clients.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "tests/cluster/network.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/process.hpp"

namespace tenure::cluster {

class Cluster {
 public:
  static constexpr std::size_t nodes = 3;

  explicit Cluster(std::size_t clients);  // All nodes are ready.
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  [[nodiscard]] kit::Etcd& node(std::size_t index) { return *nodes_.at(index); }
  [[nodiscard]] std::string url(const std::string& prefix) const;
  // Moves the calling process to a client's machine.
  void enter(std::size_t client) const { network_.enter(nodes + client); }
  // The body of a process, on a client's machine.
  [[nodiscard]] kit::Process::Body on(std::size_t client, kit::Process::Body body) const;

  // The leader as a majority sees it; waits until there is one.
  [[nodiscard]] std::size_t leader() const;
  [[nodiscard]] std::size_t follower() const { return (leader() + 1) % nodes; }

  // Faults. A client is identified by its machine.
  void stop(std::size_t node);  // SIGSTOP
  void cut_node(std::size_t one, std::size_t other) { network_.cut(one, other); }
  void cut_off_node(std::size_t node);  // From the other nodes; clients still reach it.
  void cut_client(std::size_t client, std::size_t node) { network_.cut(nodes + client, node); }
  void cut_off_client(std::size_t client) { network_.cut_off(nodes + client); }
  // The client's requests arrive, but the answers do not.
  void lose_answers(std::size_t client, std::size_t node) { network_.lose(node, nodes + client); }
  void heal_network() { network_.heal(); }
  // Repairs everything: network, stopped nodes, dead nodes. Waits until every node is ready.
  void heal();

 private:
  [[nodiscard]] kit::Etcd::Options options(std::size_t index) const;

  Network network_;
  std::array<std::unique_ptr<kit::Etcd>, nodes> nodes_;
  std::array<bool, nodes> stopped_{};
};

// The cluster of this program, created by the first call, with this many machines for clients.
inline constexpr std::size_t client_machines = 4;
[[nodiscard]] Cluster& the_cluster();

}  // namespace tenure::cluster

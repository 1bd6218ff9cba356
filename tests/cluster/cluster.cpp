#include "tests/cluster/cluster.hpp"

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::cluster {
namespace {

using namespace std::chrono_literals;

constexpr int client_port = 2379;
constexpr int peer_port = 2380;
constexpr auto poll_time = 20ms;
constexpr int polls = 6000;

std::string name_of(std::size_t node) { return "node" + std::to_string(node); }

// A field of a simple JSON text.
std::string number_in(const std::string& text, const std::string& field) {
  const std::size_t at = text.find('"' + field + "\":");
  if (at == std::string::npos) return {};
  const std::size_t first = at + field.size() + 3;
  return text.substr(first, text.find_first_not_of("0123456789", first) - first);
}

}  // namespace

Cluster::Cluster(std::size_t clients) : network_(nodes + clients) {
  for (std::size_t i = 0; i < nodes; ++i) {
    nodes_.at(i) = std::make_unique<kit::Etcd>(options(i));
  }
  for (const auto& node : nodes_) node->await_ready();
}

Cluster::~Cluster() = default;

kit::Etcd::Options Cluster::options(std::size_t index) const {
  kit::Etcd::Options options;
  options.name = name_of(index);
  options.host = Network::address(index);
  options.client_port = client_port;
  options.peer_port = peer_port;
  for (std::size_t i = 0; i < nodes; ++i) {
    options.cluster += (i == 0 ? "" : ",") + name_of(i) + "=http://" + Network::address(i) + ":" +
                       std::to_string(peer_port);
  }
  options.enter = [this, index] { network_.enter(index); };
  return options;
}

std::string Cluster::url(const std::string& prefix) const {
  std::string all;
  for (const auto& node : nodes_) all += (all.empty() ? "" : ",") + node->endpoint();
  return "etcd://" + all + "/" + prefix;
}

kit::Process::Body Cluster::on(std::size_t client, kit::Process::Body body) const {
  return [this, client, body = std::move(body)](const kit::Line& line) {
    enter(client);
    body(line);
  };
}

// Each node has an opinion, and one that is cut off has an old one: two must agree, in one term.
std::size_t Cluster::leader() const {
  for (int i = 0; i < polls; ++i) {
    std::map<std::string, std::size_t> votes;
    std::map<std::string, std::size_t> ids;
    for (std::size_t node = 0; node < nodes; ++node) {
      if (!nodes_.at(node)->runs() || stopped_.at(node)) continue;
      std::string text;
      try {
        text =
            nodes_.at(node)->etcdctl({"endpoint", "status", "--command-timeout=1s", "-w", "json"});
      } catch (const Error&) {
        continue;
      }
      ids[number_in(text, "member_id")] = node;
      const std::string leader = number_in(text, "leader");
      if (!leader.empty() && leader != "0") ++votes[leader + "@" + number_in(text, "raft_term")];
    }
    for (const auto& [vote, count] : votes) {
      const auto at = ids.find(vote.substr(0, vote.find('@')));
      if (count >= 2 && at != ids.end()) return at->second;
    }
    std::this_thread::sleep_for(poll_time);
  }
  throw Error("the cluster finds no leader");
}

void Cluster::stop(std::size_t node) {
  nodes_.at(node)->signal(SIGSTOP);
  stopped_.at(node) = true;
}

void Cluster::cut_off_node(std::size_t node) {
  for (std::size_t other = 0; other < nodes; ++other) {
    if (other != node) network_.cut(node, other);
  }
}

void Cluster::heal() {
  network_.heal();
  for (std::size_t i = 0; i < nodes; ++i) {
    if (std::exchange(stopped_.at(i), false)) nodes_.at(i)->signal(SIGCONT);
    if (!nodes_.at(i)->runs()) nodes_.at(i)->start();
  }
  for (const auto& node : nodes_) node->await_ready();
}

Cluster& the_cluster() {
  static Cluster cluster{client_machines};
  return cluster;
}

}  // namespace tenure::cluster

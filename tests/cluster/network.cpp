#include "tests/cluster/network.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tenure/error.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::cluster {
namespace {

using kit::run;

std::string reason(const std::string& what) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  return what + ": " + std::strerror(errno);
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file{path};
  file << text;
  file.close();
  return !file.fail();
}

// A network namespace; if we lack the rights for it, inside a user namespace in which we have them.
std::string leave_network() {
  if (::unshare(CLONE_NEWNET) == 0) return {};
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return reason(
        "no network namespace can be made: run this as root, or allow user namespaces "
        "(sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)");
  }
  if (!write_file("/proc/self/setgroups", "deny") ||
      !write_file("/proc/self/uid_map", "0 " + user + " 1") ||
      !write_file("/proc/self/gid_map", "0 " + group + " 1")) {
    return reason("the user namespace can't be set up (/proc/self/uid_map)");
  }
  return {};
}

int own_namespace() {
  const int fd = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(reason("/proc/self/ns/net"));
  return fd;
}

void go_to(int name_space) {
  if (::setns(name_space, CLONE_NEWNET) != 0) throw Error(reason("setns"));
}

std::string path_of(int name_space) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(name_space);
}

void ip(const std::string& command, const std::string& name_space = {}) {
  std::vector<std::string> words;
  if (!name_space.empty()) words = {"nsenter", "--net=" + name_space};
  words.emplace_back("ip");
  std::istringstream rest{command};
  for (std::string word; rest >> word;) words.push_back(word);
  try {
    run(words);
  } catch (const Error& error) {
    throw Error("the test's network can't be made (is iproute2 installed?): ip " + command + ": " +
                error.what());
  }
}

std::string subnet(std::size_t machine) { return "10.77." + std::to_string(machine); }

}  // namespace

Network::Network(std::size_t machines) {
  if (const std::string why = leave_network(); !why.empty()) throw Error(why);
  const int router = own_namespace();
  try {
    ip("link set lo up");
    if (!write_file("/proc/sys/net/ipv4/ip_forward", "1")) {
      throw Error("/proc/sys/net/ipv4/ip_forward can't be written: the test's router needs it");
    }
    for (std::size_t i = 0; i < machines; ++i) {
      if (::unshare(CLONE_NEWNET) != 0) throw Error(reason("unshare"));
      machines_.push_back(own_namespace());
      go_to(router);
      const std::string there = path_of(machines_.back());
      const std::string wire = "wire" + std::to_string(i);
      ip("link add " + wire + " type veth peer name eth0 netns " + there);
      ip("address add " + subnet(i) + ".254/24 dev " + wire);
      ip("link set " + wire + " up");
      ip("link set lo up", there);
      ip("address add " + address(i) + "/24 dev eth0", there);
      ip("link set eth0 up", there);
      ip("route add default via " + subnet(i) + ".254", there);
    }
  } catch (...) {
    for (const int one : machines_) ::close(one);
    ::close(router);
    throw;
  }
  ::close(router);
}

Network::~Network() {
  for (const int machine : machines_) ::close(machine);
}

std::string Network::address(std::size_t machine) { return subnet(machine) + ".1"; }

void Network::enter(std::size_t machine) const { go_to(machines_.at(machine)); }

// A rule of the router before all routes. It drops packets silently, like a cable that was pulled
// somewhere on the way.
void Network::lose(std::size_t from, std::size_t to) {
  if (std::ranges::find(lost_, std::pair{from, to}) != lost_.end()) return;
  ip("rule add from " + address(from) + " to " + address(to) + " blackhole");
  lost_.emplace_back(from, to);
}

void Network::cut(std::size_t one, std::size_t other) {
  lose(one, other);
  lose(other, one);
}

void Network::cut_off(std::size_t machine) {
  for (std::size_t other = 0; other < size(); ++other) {
    if (other != machine) cut(machine, other);
  }
}

void Network::heal() {
  for (const auto& [from, to] : lost_) {
    ip("rule del from " + address(from) + " to " + address(to) + " blackhole");
  }
  lost_.clear();
}

}  // namespace tenure::cluster

#include "family.hpp"

#include <dirent.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenure::cli {
namespace {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  bool dead = false;  // A zombie, waiting for its parent.
};

std::string read_small_file(const std::string& name) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file{std::fopen(name.c_str(), "re"), &std::fclose};
  if (file == nullptr) return {};
  std::array<char, 1024> buffer{};
  return {buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get())};
}

// "pid (name) state parent group …"; the name may contain anything, so the last ')' ends it.
bool parse_stat(std::string_view text, Process& out) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || text.size() < name_end + 4) return false;
  const char state = text[name_end + 2];
  out.dead = state == 'Z' || state == 'X';
  const char* const end = text.data() + text.size();
  const auto parent = std::from_chars(text.data() + name_end + 4, end, out.parent);
  if (parent.ec != std::errc{} || parent.ptr == end) return false;
  return std::from_chars(parent.ptr + 1, end, out.group).ec == std::errc{};
}

std::vector<Process> all_processes() {
  std::vector<Process> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory{::opendir("/proc"), &::closedir};
  if (directory == nullptr) return out;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this stream.
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = &entry->d_name[0];
    Process process;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process.pid);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) continue;
    std::string file{"/proc/"};
    if (parse_stat(read_small_file(file.append(name).append("/stat")), process)) {
      out.push_back(process);
    }
  }
  return out;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<Relative> family() {
  std::unordered_multimap<pid_t, Process> children;
  for (const Process& process : all_processes()) children.emplace(process.parent, process);
  std::vector<Relative> out;
  std::vector<pid_t> parents{::getpid()};
  while (!parents.empty()) {
    const auto [first, last] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = first; child != last; ++child) {
      parents.push_back(child->second.pid);
      if (!child->second.dead)
        out.push_back({.pid = child->second.pid, .group = child->second.group});
    }
  }
  return out;
}

void signal_family(int signal, pid_t group) {
  const std::vector<Relative> relatives = family();  // Before any of them can end.
  // The number of a group without members may be somebody else's by now.
  const auto in_group = [group](const Relative& relative) { return relative.group == group; };
  if (group != 0 && std::ranges::any_of(relatives, in_group)) {
    ::kill(-group, signal);
    ::kill(-group, SIGCONT);
  }
  for (const Relative& relative : relatives) {
    if (in_group(relative)) continue;
    ::kill(relative.pid, signal);
    ::kill(relative.pid, SIGCONT);
  }
}

}  // namespace tenure::cli

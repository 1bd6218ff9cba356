#include "process/process_tree.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
#include <unordered_set>

namespace tenure::process {
namespace {

constexpr int retry_ms = 10;  // The kernel takes a moment to end a process that was killed.

std::string read_small_file(const std::string& name) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file{std::fopen(name.c_str(), "re"), &std::fclose};
  if (file == nullptr) return {};
  std::array<char, 1024> buffer{};
  return {buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get())};
}

// "pid (name) state parent group …"; the name may contain anything, so the last ')' ends it.
bool parse_stat(std::string_view text, TreeMember& out) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || text.size() < name_end + 4) return false;
  const char state = text[name_end + 2];
  out.dead = state == 'Z' || state == 'X';
  const char* const end = text.data() + text.size();
  const auto parent = std::from_chars(text.data() + name_end + 4, end, out.parent);
  if (parent.ec != std::errc{} || parent.ptr == end) return false;
  return std::from_chars(parent.ptr + 1, end, out.group).ec == std::errc{};
}

std::vector<TreeMember> all_processes() {
  std::vector<TreeMember> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory{::opendir("/proc"), &::closedir};
  if (directory == nullptr) return out;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this stream.
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = &entry->d_name[0];
    TreeMember process;
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

std::vector<TreeMember> process_tree(std::span<const pid_t> skipped) {
  std::unordered_multimap<pid_t, TreeMember> children;
  for (const TreeMember& process : all_processes()) children.emplace(process.parent, process);
  std::vector<TreeMember> out;
  std::vector<pid_t> parents{::getpid()};
  while (!parents.empty()) {
    const auto [first, last] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = first; child != last; ++child) {
      const TreeMember& member = child->second;
      if (std::ranges::find(skipped, member.pid) != skipped.end()) continue;
      parents.push_back(member.pid);
      out.push_back(member);
    }
  }
  return out;
}

void signal_tree(int signal, pid_t group) {
  const std::vector<TreeMember> tree = process_tree();  // Before any of them can end.
  // The kernel may have given the number of a group without members to another group.
  const auto in_group = [group](const TreeMember& member) {
    return member.group == group && !member.dead;
  };
  if (group != 0 && std::ranges::any_of(tree, in_group)) {
    ::kill(-group, signal);
    ::kill(-group, SIGCONT);
  }
  for (const TreeMember& member : tree) {
    if (member.dead || in_group(member)) continue;
    ::kill(member.pid, signal);
    ::kill(member.pid, SIGCONT);
  }
}

void stop_tree() {
  std::unordered_set<pid_t> stopped;
  for (bool found_new = true; found_new;) {
    found_new = false;
    for (const TreeMember& member : process_tree()) {
      if (member.dead || !stopped.insert(member.pid).second) continue;
      found_new = true;
      ::kill(member.pid, SIGSTOP);
    }
  }
}

void resume_tree() {
  for (const TreeMember& member : process_tree()) {
    if (!member.dead) ::kill(member.pid, SIGCONT);
  }
}

void end_orphans(std::span<const pid_t> kept) {
  const pid_t self = ::getpid();
  for (;;) {
    const std::vector<TreeMember> tree = process_tree(kept);
    for (const TreeMember& member : tree) {
      if (!member.dead) ::kill(member.pid, SIGKILL);
    }
    for (const TreeMember& member : tree) {
      if (member.parent == self) ::waitpid(member.pid, nullptr, WNOHANG);
    }
    if (tree.empty()) return;
    ::poll(nullptr, 0, retry_ms);
  }
}

}  // namespace tenure::process

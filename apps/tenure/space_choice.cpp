#include "space_choice.hpp"

#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "environment.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/sharded/sharded_space.hpp"
#include "space/stored/grant_wait.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";

std::string home() {
  if (const std::string_view home = environment("HOME"); home.starts_with('/')) {
    return std::string{home};
  }
  const passwd* const user = ::getpwuid(::getuid());  // NOLINT(concurrency-mt-unsafe): main thread.
  if (user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/') return user->pw_dir;
  throw Error("cannot find a home directory for the default space: use --space or TENURE_SPACE");
}

}  // namespace

std::string state_directory() {
  // By the specification, a relative path counts as unset.
  if (const std::string_view state = environment("XDG_STATE_HOME"); state.starts_with('/')) {
    return fmt::format("{}/tenure", state);
  }
  return home() + "/.local/state/tenure";
}

void make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      throw Error(fmt::format("cannot create the directory '{}': {}", printable(part),
                              std::generic_category().message(errno)));
    }
    if (end == std::string::npos) return;
  }
}

SpaceChoice choose_space(const std::string& option) {
  SpaceChoice choice;
  choice.url = option.empty() ? std::string{environment("TENURE_SPACE")} : option;
  if (choice.url.empty()) {
    choice.url = fmt::format("{}{}/tenure.db", sqlite_scheme, state_directory());
    choice.of_this_user = true;
  }
  choice.shown = shown_url(choice.url);
  if (choice.url.starts_with(sqlite_scheme)) choice.file = choice.url.substr(sqlite_scheme.size());
  return choice;
}

bool exists(const SpaceChoice& choice) {
  return choice.file.empty() || ::access(choice.file.c_str(), F_OK) == 0;
}

namespace {

std::shared_ptr<Store> open_store(const SpaceChoice& choice) {
  if (choice.url.starts_with("local:") || choice.url == "memory:") {
    throw Error("'" + choice.url +
                "' works in one process only: use sqlite:FILE, postgres://HOST/DATABASE or "
                "etcd://HOST");
  }
  if (choice.of_this_user) make_directories(choice.file.substr(0, choice.file.rfind('/')));
  return store(choice.url);
}

// Null: it is none.
sharded::ShardedSpace* sharded_space(const Space& space) {
  return dynamic_cast<sharded::ShardedSpace*>(&detail::SpaceAccess::backend(space));
}

void require_exists(const SpaceChoice& choice) {
  if (exists(choice)) return;
  throw Error(
      fmt::format("there is no file '{}': 'tenure run' creates it", printable(choice.file)));
}

}  // namespace

Instant OpenSpace::now() const {
  return store != nullptr ? store->now() : std::chrono::system_clock::now();
}

std::vector<TicketInfo> OpenSpace::inspect_waits(const Owner& owner, const Path& path) const {
  if (sharded::ShardedSpace* const shards = sharded_space(space)) {
    return shards->home(path)->space->inspect_waits(owner);
  }
  return stored::stored_space(space).inspect_waits(owner);
}

OpenSpace open_space(const SpaceChoice& choice, std::string label, const Path* path) {
  SessionOptions options;
  options.label = std::move(label);
  if (sharded::is_sharded(choice.url)) {
    Space shards = detail::SpaceAccess::make(
        sharded::ShardedSpace::open(sharded::read_sources(choice.url), options));
    std::shared_ptr<Store> home;
    if (path != nullptr) home = sharded_space(shards)->home(*path)->store;
    return {.store = std::move(home), .space = std::move(shards)};
  }
  std::shared_ptr<Store> opened = open_store(choice);
  Space space = open(opened, std::move(options));
  return {.store = std::move(opened), .space = std::move(space)};
}

OpenSpace open_existing_space(const SpaceChoice& choice) {
  require_exists(choice);
  return open_space(choice);
}

std::shared_ptr<Store> open_existing_store(const SpaceChoice& choice) {
  require_exists(choice);
  return open_store(choice);
}

}  // namespace tenure::cli

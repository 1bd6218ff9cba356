#include "git/local_push.hpp"

#include <git2/sys/transport.h>

#include <optional>
#include <string_view>
#include <vector>

#include "git/files.hpp"

namespace tenure::git {
namespace {

using RemoteHandle = Owned<git_remote, git_remote_free>;

// libgit2 1.5 pushes refs, not ids. This one is a file of the worktree alone.
constexpr const char* pushed_ref = "TENURE_PUSH";

// The connection as libgit2 sees it: both ends are the pipes of one process. libgit2 closes and
// frees what is not its own here; that does nothing.
struct Connection {
  git_smart_subtransport transport{};
  git_smart_subtransport_stream stream{};
  git_smart_subtransport_definition definition{};
  GitProcess* process = nullptr;
  std::string messages;  // Of the remote and its hooks.
  std::string report;    // The beginning of what came after our first write.
  bool asked = false;
  bool deaf = false;                  // The remote reads no more.
  std::optional<std::string> status;  // Of the ref: empty is success.
};

template <class Handle>
Connection& connection_of(Handle* handle);
template <>
Connection& connection_of(git_smart_subtransport* handle) {
  return *reinterpret_cast<Connection*>(handle);  // NOLINT: its first member.
}
template <>
Connection& connection_of(git_smart_subtransport_stream* handle) {
  return connection_of(handle->subtransport);
}

int open_stream(git_smart_subtransport_stream** out, git_smart_subtransport* transport,
                const char* /*url*/, git_smart_service_t /*service*/) {
  *out = &connection_of(transport).stream;
  return 0;
}
int close_transport(git_smart_subtransport* /*transport*/) { return 0; }
void free_transport(git_smart_subtransport* /*transport*/) {}
void free_stream(git_smart_subtransport_stream* /*stream*/) {}

int read_stream(git_smart_subtransport_stream* stream, char* buffer, std::size_t size,
                std::size_t* got) {
  Connection& connection = connection_of(stream);
  *got = connection.process->read(buffer, size);
  constexpr std::size_t max_report = 4096;
  if (connection.asked && connection.report.size() < max_report) {
    connection.report.append(buffer, *got);
  }
  return 0;
}

// A remote that can't store the pack stops reading it and says why: what it says is read all the
// same, and without a word from it libgit2 meets the end of the stream.
int write_stream(git_smart_subtransport_stream* stream, const char* buffer, std::size_t size) {
  Connection& connection = connection_of(stream);
  connection.asked = true;
  connection.deaf = connection.deaf || !connection.process->write({buffer, size});
  return 0;
}

int make_subtransport(git_smart_subtransport** out, git_transport* /*owner*/, void* connection) {
  *out = &static_cast<Connection*>(connection)->transport;
  return 0;
}

int make_transport(git_transport** out, git_remote* owner, void* connection) {
  return git_transport_smart(out, owner, &static_cast<Connection*>(connection)->definition);
}

int note_message(const char* text, int size, void* connection) {
  static_cast<Connection*>(connection)->messages.append(text, static_cast<std::size_t>(size));
  return 0;
}

int note_status(const char* /*ref*/, const char* status, void* connection) {
  static_cast<Connection*>(connection)->status = status == nullptr ? "" : status;
  return 0;
}

git_remote_callbacks callbacks_of(Connection& connection) {
  connection.transport = {
      .action = &open_stream, .close = &close_transport, .free = &free_transport};
  connection.stream = {.subtransport = &connection.transport,
                       .read = &read_stream,
                       .write = &write_stream,
                       .free = &free_stream};
  connection.definition = {.callback = &make_subtransport, .rpc = 0, .param = &connection};
  git_remote_callbacks out{};
  git_remote_init_callbacks(&out, GIT_REMOTE_CALLBACKS_VERSION);
  out.transport = &make_transport;
  out.sideband_progress = &note_message;
  out.push_update_reference = &note_status;
  out.payload = &connection;
  return out;
}

std::optional<git_oid> advertised(git_remote* remote, std::string_view ref) {
  const git_remote_head** heads = nullptr;
  std::size_t count = 0;
  if (git_remote_ls(&heads, &count, remote) != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    if (ref == heads[i]->name) return heads[i]->oid;
  }
  return std::nullopt;
}

// The line of `git push --porcelain` for a ref that was not updated.
std::string rejection(const LocalPush& push, const std::string& summary) {
  return "!\t" + text_of(push.to) + ":" + push.ref + "\t" + summary + "\n";
}

// "remote: " before every line, as git prints what a remote says.
std::string as_remote(std::string_view messages) {
  std::string out;
  while (!messages.empty()) {
    const std::string_view line = messages.substr(0, messages.find_first_of("\r\n"));
    messages.remove_prefix(std::min(line.size() + 1, messages.size()));
    if (!line.empty()) out.append("remote: ").append(line).append("\n");
  }
  return out;
}

// Why the remote could not store the pack. libgit2 only says that it could not: the reason is in
// the remote's report, "unpack REASON".
std::optional<std::string> unpack_error(std::string_view report) {
  constexpr std::string_view unpack = "unpack ";
  const std::size_t begin = report.find(unpack);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = report.substr(begin + unpack.size());
  const std::string_view reason = rest.substr(0, rest.find('\n'));
  if (reason == "ok") return std::nullopt;
  return std::string{reason};
}

// Fills in the answer as far as the protocol gives it.
void talk(const LocalPush& push, git_repository* repository, GitProcess& process,
          GitAnswer& answer) {
  Connection connection;
  connection.process = &process;
  git_push_options options{};
  git_push_options_init(&options, GIT_PUSH_OPTIONS_VERSION);
  options.callbacks = callbacks_of(connection);
  git_remote* made = nullptr;
  const std::string url = "file://" + push.remote.string();
  git_remote_create_options anonymous{};
  git_remote_create_options_init(&anonymous, GIT_REMOTE_CREATE_OPTIONS_VERSION);
  anonymous.repository = repository;
  // The URL is a path, found already; and libgit2 1.5 leaks 20 kB for each line of the
  // configuration that it compares with url.*.insteadOf.
  anonymous.flags = GIT_REMOTE_CREATE_SKIP_INSTEADOF;
  int result = git_remote_create_with_opts(&made, url.c_str(), &anonymous);
  const RemoteHandle remote{made};
  if (result == 0) {
    result = git_remote_connect(made, GIT_DIRECTION_PUSH, &options.callbacks, nullptr, nullptr);
  }
  if (result == 0) {
    const std::optional<git_oid> head = advertised(made, push.ref);
    if (!head || git_oid_equal(&*head, &push.from) == 0) {
      answer.output = rejection(push, "[rejected] (stale info)");
    } else {
      // Forced: that the branch has the expected head is known, and receive-pack compares again.
      std::string spec = std::string{"+"} + pushed_ref + ":" + push.ref;
      char* specs = spec.data();
      const git_strarray all{.strings = &specs, .count = 1};
      result = git_remote_upload(made, &all, &options);
    }
  }
  if (result != 0) {
    answer.errors +=
        "error: " + (connection.deaf ? "the remote end hung up unexpectedly" : last_words()) + "\n";
  }
  if (const auto reason = unpack_error(connection.report); reason && result != 0) {
    answer.errors += "error: remote unpack failed: " + *reason + "\n";
    connection.status = "unpacker error";
  }
  if (connection.status && !connection.status->empty()) {
    answer.output = rejection(push, "[remote rejected] (" + *connection.status + ")");
  }
  answer.errors = as_remote(connection.messages) + answer.errors;
  const bool pushed = result == 0 && connection.status && connection.status->empty();
  answer.status = pushed ? 0 : 1;
  if (made != nullptr) git_remote_disconnect(made);
}

}  // namespace

GitAnswer push_here(const LocalPush& push, git_repository* repository, GitProgram& program,
                    const std::filesystem::path& directory, const std::stop_token& stop) {
  std::vector<std::string> arguments{"-c", "gc.autoDetach=false", "-c",
                                     "maintenance.autoDetach=false"};
  if (!push.maintain) arguments.insert(arguments.end(), {"-c", "receive.autogc=false"});
  arguments.insert(arguments.end(), {"receive-pack", push.remote.string()});
  write_file(std::filesystem::path{git_repository_path(repository)} / pushed_ref,
             text_of(push.to) + "\n");
  GitAnswer said;
  const GitAnswer ended =
      program.talk({.arguments = arguments,
                    .directory = directory,
                    // git gives a remote none of the configuration that belongs to one call.
                    .environment = {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"}},
                   stop, [&](GitProcess& process) { talk(push, repository, process, said); });
  said.errors += ended.errors;
  return said;
}

}  // namespace tenure::git

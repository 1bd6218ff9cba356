// supervise.hpp: makes sure that a benchmark with servers and files leaves nothing behind.
//
// The program runs in a child of a process that waits for its end or for SIGINT, SIGTERM or SIGHUP.
// Then that process ends what is left of the program's processes, reaps them all (it is their
// reaper, however deep they were forked) and removes their files. Only its own SIGKILL leaves the
// files behind.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace tenure::bench::stored {

// Returns the exit status of `program`, or that of one which a signal ended.
int supervised(const std::function<int()>& program);

// A directory for files of the program, on a disk if there is one.
[[nodiscard]] const std::filesystem::path& scratch();
[[nodiscard]] std::string scratch_kind();  // The kind of file system that it is on.
// A path in it that was not returned before.
[[nodiscard]] std::filesystem::path scratch_path(std::string_view name);

}  // namespace tenure::bench::stored

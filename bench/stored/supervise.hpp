// supervise.hpp: what a benchmark with servers and files leaves behind: nothing.
//
// The program runs in a child of a process that waits for its end or for SIGINT, SIGTERM or SIGHUP.
// Then it ends what is left of the program's processes, reaps them all (it is their reaper, however
// deep they were forked) and removes their files. Only its own SIGKILL leaves the files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace tenure::bench::stored {

// Returns the exit status of `program`, or that of one which a signal ended.
int supervised(const std::function<int()>& program);

// For files of the program: a directory of its own, on a disk where there is one.
[[nodiscard]] const std::filesystem::path& scratch();
[[nodiscard]] std::string scratch_kind();  // The kind of file system that it is on.
// A path in it that was not given before.
[[nodiscard]] std::filesystem::path scratch_path(std::string_view name);

}  // namespace tenure::bench::stored

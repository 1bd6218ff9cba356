// module.hpp: stores whose database needs a large client library, loaded when a URL first needs it.
// Programs that do not use etcd do not pay for gRPC, which adds 10 ms to every start.
//
// A module is a shared object that contains a copy of this library and one C function,
// tenure_store_module. Exceptions that it throws can be caught here, because types are compared by
// name.
//
// Directories that are searched for modules, in this order:
//   1. the directories in TENURE_MODULES, with colons between them; not in a setuid program
//   2. the RUNPATH of the program or shared library that this code was linked into
//
// The linker writes the RUNPATH: `$ORIGIN/../lib/tenure` into the program, so that the prefix can
// move; the tree's module directory into its tests; the prefix's module directory into programs
// that find_package or pkg-config helped to build (docs/install.md).
//
// Rejected: dlopen of the bare name, which leaves the search to the loader. The loader searches
// LD_LIBRARY_PATH first, where an empty element means the current directory; does not report where
// it searched; and under g++'s sanitizers uses the RUNPATH of their runtime, which calls dlopen.
//
// A module is never unloaded, because its threads and those of its libraries can't be ended.
//
// Thread safety: all of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::stores {

struct Module {
  const char* version;  // The version of the library inside; it must equal ours.
  std::shared_ptr<Store> (*open)(std::string_view url);
};

inline constexpr const char* module_function = "tenure_store_module";
using ModuleFunction = const Module* (*)();
[[nodiscard]] const char* module_version() noexcept;

[[nodiscard]] std::vector<std::string> module_directories();
// The directories of a RUNPATH, with $ORIGIN replaced. Leaves out those that are relative, since
// they depend on the current directory, and without an origin those that need one.
[[nodiscard]] std::vector<std::string> expand_runpath(std::string_view runpath,
                                                      const std::string& origin);

// Loads NAME.so from the first directory that has it. Throws StoreError if no directory has it, or
// if it can't be used. `package` is the package to install, for the message.
[[nodiscard]] const Module& load_module(const std::string& name, const std::string& package,
                                        const std::vector<std::string>& directories);

}  // namespace tenure::stores

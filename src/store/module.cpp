#include "store/module.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/annotations.hpp"
#include "base/mutex.hpp"

namespace tenure::stores {
namespace {

namespace fs = std::filesystem;

// By file. Never forgotten, and never destroyed: a store may outlive every static.
struct Loaded {
  base::Mutex mutex;
  std::map<std::string, const Module*> modules TENURE_GUARDED_BY(mutex);

  static Loaded& instance() {
    static auto* const loaded = new Loaded;
    return *loaded;
  }
};

void add_beside(std::vector<std::string>& all, const fs::path& file) {
  if (file.empty()) return;
  const fs::path up = file.parent_path().parent_path();
  for (const char* const lib : {"lib", TENURE_LIBDIR}) {
    std::string directory = (up / lib / "tenure").string();
    if (std::ranges::find(all, directory) == all.end()) all.push_back(std::move(directory));
  }
}

fs::path own_object() {
  Dl_info info{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dladdr wants it so.
  if (::dladdr(reinterpret_cast<const void*>(&module_version), &info) == 0) return {};
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? fs::path{} : path;
}

const Module& load(const std::string& file, const std::string& package) {
  void* const object = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's is a thread's own.
    const char* const why = ::dlerror();
    throw StoreError("cannot load the module '" + file + "': install " + package + " again (" +
                     (why == nullptr ? "unknown reason" : why) + ")");
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dlsym has no other way.
  const auto function = reinterpret_cast<ModuleFunction>(::dlsym(object, module_function));
  if (function == nullptr) {
    throw StoreError("'" + file + "' is not a Tenure module: install " + package);
  }
  const Module* const module = function();
  if (std::strcmp(module->version, module_version()) != 0) {
    throw StoreError("the module '" + file + "' is from Tenure " + module->version +
                     ", but this program is Tenure " + module_version() +
                     ": install both from the same release");
  }
  return *module;
}

}  // namespace

const char* module_version() noexcept { return TENURE_VERSION; }

std::vector<std::string> module_directories() {
  std::vector<std::string> all;
  if (const char* const named = ::secure_getenv("TENURE_MODULES"); named != nullptr) {
    for (std::string_view rest = named; !rest.empty();) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end != 0) all.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::error_code error;
  add_beside(all, fs::read_symlink("/proc/self/exe", error));
  add_beside(all, own_object());
  all.emplace_back(TENURE_FULL_LIBDIR "/tenure");
  return all;
}

const Module& load_module(const std::string& name, const std::string& package,
                          const std::vector<std::string>& directories) {
  std::string tried;
  for (const std::string& directory : directories) {
    const std::string file = (fs::path{directory} / (name + ".so")).string();
    if (::access(file.c_str(), F_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + directory;
      continue;
    }
    Loaded& loaded = Loaded::instance();
    const base::Mutex::Scoped lock{loaded.mutex};
    const Module*& module = loaded.modules[file];
    if (module == nullptr) module = &load(file, package);
    return *module;
  }
  throw StoreError("cannot find '" + name + ".so' (" + package + ") in " + tried +
                   ": this program was built without it, or it is not installed. Build it with "
                   "'make build', install it, or set TENURE_MODULES to its directory");
}

}  // namespace tenure::stores

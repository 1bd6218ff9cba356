#include "store/module.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>

#include "base/annotations.hpp"
#include "base/mutex.hpp"

namespace tenure::stores {
namespace {

namespace fs = std::filesystem;

// By file. Modules are never unloaded, and this is never destroyed: a store may outlive every
// static object.
struct Loaded {
  base::Mutex mutex;
  std::map<std::string, const Module*> modules TENURE_GUARDED_BY(mutex);

  static Loaded& instance() {
    static auto* const loaded = new Loaded;
    return *loaded;
  }
};

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end != 0) all.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return all;
}

// The program or shared library that contains this code; null in a static program.
const link_map* own_object() {
  Dl_info info{};
  void* found = nullptr;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dladdr1 takes addresses of data.
  const auto* const here = reinterpret_cast<const void*>(&module_version);
  if (::dladdr1(here, &info, &found, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<const link_map*>(found);
}

// The RUNPATH that the linker recorded (-rpath), or empty.
std::string_view runpath_of(const link_map& object) {
  const char* strings = nullptr;
  std::size_t offset = 0;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader has made an address of it.
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH) offset = entry->d_un.d_val;
  }
  return strings == nullptr || offset == 0 ? std::string_view{} : strings + offset;
}

// The directory of the object, for $ORIGIN. Empty in a setuid program, which a user may hard-link
// into a directory of their own, and for a library that was loaded by a relative name, because the
// current directory may have changed. For the program itself the kernel is asked: dladdr repeats
// argv[0].
std::string origin_of(const link_map& object) {
  if (::getauxval(AT_SECURE) != 0) return {};
  std::error_code error;
  fs::path file = object.l_name;
  if (file.empty()) file = fs::read_symlink("/proc/self/exe", error);
  return file.is_absolute() ? file.parent_path().string() : std::string{};
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

std::vector<std::string> expand_runpath(std::string_view runpath, const std::string& origin) {
  std::vector<std::string> all;
  for (std::string_view entry : split(runpath)) {
    std::string directory;
    for (const std::string_view name : {"$ORIGIN", "${ORIGIN}"}) {
      if (origin.empty() || !entry.starts_with(name)) continue;
      directory = origin;
      entry.remove_prefix(name.size());
    }
    directory += entry;
    if (directory.starts_with('/')) all.push_back(std::move(directory));
  }
  return all;
}

std::vector<std::string> module_directories() {
  std::vector<std::string> all;
  if (const char* const named = ::secure_getenv("TENURE_MODULES"); named != nullptr) {
    for (const std::string_view directory : split(named)) all.emplace_back(directory);
  }
  if (const link_map* const own = own_object(); own != nullptr) {
    std::ranges::move(expand_runpath(runpath_of(*own), origin_of(*own)), std::back_inserter(all));
  }
  return all;
}

const Module& load_module(const std::string& name, const std::string& package,
                          const std::vector<std::string>& directories) {
  if (directories.empty()) {
    throw StoreError("no directory to search for the module " + name +
                     ".so: link the program with the options of find_package(tenure) or " +
                     "pkg-config, or name the module's directory in TENURE_MODULES");
  }
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

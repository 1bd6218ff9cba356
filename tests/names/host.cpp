// A program that loads and unloads plug-ins as it is told, and says what it did:
//   host +a.so -a.so %a.so list     load; unload; both, often, from four threads at once; names()
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

// Only in hosts that contain Tenure themselves.
[[gnu::weak]] void list_names();

namespace {

void* load(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", ::dlerror());
    std::exit(2);
  }
  auto* works = reinterpret_cast<bool (*)()>(::dlsym(library, "plugin_works"));
  if (works == nullptr || !works()) std::puts("its names do not work");
  return library;
}

// A plug-in that stays in memory would leave its names behind.
void unload(const std::string& file, void* library) {
  ::dlclose(library);
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr) std::puts("it is still there");
}

void load_and_unload_from_threads(const std::string& file) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&file] {
      for (int turn = 0; turn < 200; ++turn) ::dlclose(load(file));
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setbuf(stdout, nullptr);  // Keeps the order relative to standard error.
  std::map<std::string, void*> loaded;
  const std::vector<std::string> steps(argv + 1, argv + argc);
  for (const std::string& step : steps) {
    const std::string file = step.substr(1);
    std::printf("%c%s\n", step[0], file.substr(file.rfind('/') + 1).c_str());
    switch (step[0]) {
      case '+': loaded[file] = load(file); break;
      case '-': unload(file, loaded.at(file)); break;
      case '%': load_and_unload_from_threads(file); break;
      default: list_names();
    }
  }
  std::puts("done");
  return 0;
}

#include "tenure/name.hpp"

#include <libintl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "tenure/path.hpp"

namespace tenure {
namespace {

using detail::NameRecord;

// abort, not _Exit: neither runs destructors, which would meet a half-initialised program, but
// abort leaves a core whose stack shows who loaded the second definition, and supervisors see a
// crash.
[[noreturn]] void die(const std::string& message) noexcept {
  std::fputs(message.c_str(), stderr);
  std::abort();
}

// Held for a few hundred nanoseconds at a time, at load. A waiter sleeps and checks again: waking
// it would need a protocol between copies of Tenure of different versions.
//
// If a process forks while another thread holds the lock, the child finds its parent's process id
// in it and takes the lock over. Each change to the list is one store, so the list is always
// consistent.
class TENURE_CAPABILITY("lock") Lock {
 public:
  void lock() noexcept TENURE_ACQUIRE() {
    const auto self = static_cast<std::uint32_t>(::getpid());
    std::uint32_t expected = 0;
    // acquire/release: the holder of the lock sees the records that earlier holders linked.
    while (!holder_.compare_exchange_weak(expected, self, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      if (expected != self) continue;
      std::this_thread::sleep_for(std::chrono::microseconds{50});
      expected = 0;
    }
  }
  void unlock() noexcept TENURE_RELEASE() { holder_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> holder_ = 0;  // A process id; 0: free.
};

class TENURE_SCOPED_CAPABILITY Locked {
 public:
  explicit Locked(Lock& lock) noexcept TENURE_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~Locked() TENURE_RELEASE() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked(Locked&&) = delete;
  Locked& operator=(const Locked&) = delete;
  Locked& operator=(Locked&&) = delete;

 private:
  Lock& lock_;
};

// The registry: one per process, whatever the number of copies of this file in it. Versions of
// Tenure share it, so its layout and `bucket` never change; another layout would use another
// `domain`. Chains are in the order of registration.
struct Registry {
  Lock lock;
  std::uint32_t unused = 0;
  std::array<NameRecord*, 256> buckets TENURE_GUARDED_BY(lock) = {};
};
constexpr const char* domain = "tenure-names-v1";
constexpr std::string_view rendezvous = domain;
static_assert(std::is_standard_layout_v<Registry> && offsetof(Registry, buckets) == 8);
static_assert(std::is_standard_layout_v<NameRecord> && offsetof(NameRecord, line) == 32);

constexpr std::size_t bucket(std::string_view text) noexcept {  // FNV-1a, folded.
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return (hash ^ (hash >> 16U)) & 0xffU;
}

// Called with the loader's lock held. Copies of Tenure that share no symbol still share libc. The
// only table of strings in libc that any code may extend is the list of directories of message
// catalogues. The registry's address is there as text, under a domain that has no messages.
// README.md lists the rejected alternatives.
Registry* find_or_make() noexcept {
  constexpr std::size_t digits = 16;
  const char* found = ::bindtextdomain(domain, nullptr);
  const std::string_view text = found != nullptr ? found : "";
  // Otherwise it is the default directory, and this copy is the first.
  if (text.starts_with(rendezvous)) {
    std::uintptr_t address = 0;
    std::from_chars(text.data() + rendezvous.size(), text.data() + text.size(), address, 16);
    return std::bit_cast<Registry*>(address);
  }
  // A mapping of its own, so that the registry outlives the copy that made it.
  void* memory =
      ::mmap(nullptr, sizeof(Registry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::array<char, rendezvous.size() + digits + 1> entry{};
  rendezvous.copy(entry.data(), rendezvous.size());
  std::to_chars(entry.data() + rendezvous.size(), entry.data() + entry.size() - 1,
                std::bit_cast<std::uintptr_t>(memory), 16);
  if (memory == MAP_FAILED || ::bindtextdomain(domain, entry.data()) == nullptr) {
    die("tenure: out of memory: cannot create the registry of names\n");
  }
  return new (memory) Registry;
}

// constinit, and never destroyed: names are created and destroyed in any order relative to this
// file.
constinit std::atomic<Registry*> known = nullptr;

// The first call in each copy of Tenure takes about 20 us, mostly in the loader, which looks up the
// functions used here. Later calls are one load, and registering a name takes 0.2 us.
Registry& registry() noexcept {
  if (Registry* found = known.load(std::memory_order_acquire)) return *found;
  // Two copies must not both find nothing. dl_iterate_phdr calls back with the loader's lock held,
  // which all copies share; threads that load libraries take it last, as we do.
  ::dl_iterate_phdr(
      [](dl_phdr_info* /*object*/, std::size_t /*size*/, void* /*data*/) {
        if (known.load(std::memory_order_acquire) == nullptr) {
          known.store(find_or_make(), std::memory_order_release);
        }
        return 1;  // The first object is enough.
      },
      nullptr);
  return *known.load(std::memory_order_acquire);
}

std::string_view text_of(const NameRecord& record) noexcept { return {record.text, record.size}; }

// A program and its plug-in may have been built in different directories.
std::string_view last_component(std::string_view file) noexcept {
  return file.substr(file.rfind('/') + 1);  // npos + 1 is 0.
}

bool same_definition(const NameRecord& a, const NameRecord& b) noexcept {
  return a.line == b.line && (a.column == b.column || a.compiler != b.compiler) &&
         last_component(a.file) == last_component(b.file);
}

std::string place(const NameRecord& record) {
  return std::string{record.file} + ":" + std::to_string(record.line) + ":" +
         std::to_string(record.column);
}

std::string complaint(const NameRecord& first, const NameRecord& second) {
  return "tenure: the name \"" + Path::of(text_of(first)).text() + "\" is defined twice:\n  " +
         place(first) + "\n  " + place(second) +
         "\nA lock of one would block a lock of the other. Rename one of them; or, if both mean "
         "the same\nthing, define the name once, in a header that both files include.\n";
}

}  // namespace

namespace detail {

void enroll(NameRecord& record) noexcept {
  Registry& all = registry();
  std::string message;
  {
    const Locked locked{all.lock};
    NameRecord** link = &all.buckets.at(bucket(text_of(record)));
    for (; *link != nullptr && message.empty(); link = &(*link)->next) {
      if (text_of(**link) == text_of(record) && !same_definition(**link, record)) {
        // While the strings of the other definition still exist.
        message = complaint(**link, record);
      }
    }
    if (message.empty()) *link = &record;
  }
  if (!message.empty()) die(message);
}

void withdraw(NameRecord& record) noexcept {
  Registry& all = registry();
  const Locked locked{all.lock};
  NameRecord** link = &all.buckets.at(bucket(text_of(record)));
  while (*link != &record) link = &(*link)->next;
  *link = record.next;
}

}  // namespace detail

std::vector<NameInfo> names() {
  Registry& all = registry();
  std::map<std::string, NameInfo> by_name;
  {
    const Locked locked{all.lock};
    for (const NameRecord* record : all.buckets) {
      for (; record != nullptr; record = record->next) {
        NameInfo& info = by_name[std::string{text_of(*record)}];
        if (++info.definitions > 1) continue;
        info.name = text_of(*record);
        info.file = record->file;
        info.line = record->line;
        info.column = record->column;
      }
    }
  }
  std::vector<NameInfo> list;
  list.reserve(by_name.size());
  for (auto& [name, info] : by_name) list.push_back(std::move(info));
  return list;
}

}  // namespace tenure

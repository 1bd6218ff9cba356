// What is left after a power loss: a SQLite file system that remembers, for each file, what was
// synced, and at the "power loss" undoes what was not: all of it, or the writes after a random one,
// as a disk that reorders may.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/sqlite/sqlite_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::sqlite {
namespace {

// The bytes of one file that would survive, and the writes that might.
struct Disk {
  struct Change {
    sqlite3_int64 offset;
    std::string bytes;  // Of a write;
    bool cut = false;   // or the file was truncated to `offset`.
  };
  std::string synced;
  std::vector<Change> since;

  static void make(std::string& file, const Change& change) {
    const auto offset = static_cast<std::size_t>(change.offset);
    if (change.cut) {
      file.resize(offset);
      return;
    }
    if (file.size() < offset + change.bytes.size()) file.resize(offset + change.bytes.size());
    std::ranges::copy(change.bytes, file.begin() + change.offset);
  }
  void sync() {
    for (const Change& change : since) make(synced, change);
    since.clear();
  }
};

class PowerLossVfs {
 public:
  static constexpr const char* name = "tenure-power-loss";

  static PowerLossVfs& instance() {
    static auto* const vfs = new PowerLossVfs;
    return *vfs;
  }

  // Resets every file to what was synced, plus some of what was written since. Ends the process
  // with the mutex held: the checkpoint thread must not write afterwards.
  [[noreturn]] void lose_power(std::mt19937& random) {
    const std::scoped_lock lock{mutex_};
    for (auto& [path, disk] : disks_) {
      std::string left = disk.synced;
      const auto kept = std::uniform_int_distribution<std::size_t>{0, disk.since.size()}(random);
      const bool in_order = random() % 2 == 0;
      for (std::size_t i = 0; i < disk.since.size(); ++i) {
        if (in_order ? i < kept : random() % 2 == 0) Disk::make(left, disk.since[i]);
      }
      if (!std::filesystem::exists(path)) continue;
      std::ofstream{path, std::ios::binary | std::ios::trunc} << left;
    }
    ::_exit(0);
  }

 private:
  // SQLite gives us szOsFile bytes: ours, then the real file.
  struct File {
    sqlite3_file base;
    const char* path;  // Null: a file that does not matter after a boot.
  };
  static sqlite3_file* real(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
  }
  static sqlite3_vfs* real(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }
  static Disk* disk(sqlite3_file* file) {
    const char* const path = reinterpret_cast<File*>(file)->path;
    return path == nullptr ? nullptr : &instance().disks_[path];
  }

  PowerLossVfs() {
    sqlite3_vfs* const under = sqlite3_vfs_find(nullptr);
    vfs_ = *under;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + under->szOsFile;
    vfs_.zName = name;
    vfs_.pNext = nullptr;
    vfs_.pAppData = under;
    vfs_.xOpen = open;
    vfs_.xDelete = [](sqlite3_vfs* vfs, const char* path, int sync) {
      const std::scoped_lock lock{instance().mutex_};
      instance().disks_.erase(path);
      return real(vfs)->xDelete(real(vfs), path, sync);
    };
    vfs_.xAccess = [](sqlite3_vfs* v, const char* p, int flags, int* out) {
      return real(v)->xAccess(real(v), p, flags, out);
    };
    vfs_.xFullPathname = [](sqlite3_vfs* v, const char* p, int size, char* out) {
      return real(v)->xFullPathname(real(v), p, size, out);
    };
    make_methods();
    sqlite3_vfs_register(&vfs_, 0);
  }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    auto* const own = reinterpret_cast<File*>(file);
    own->base.pMethods = nullptr;
    own->path = nullptr;
    const int code = real(vfs)->xOpen(real(vfs), path, real(file), flags, out);
    if (code != SQLITE_OK) return code;
    constexpr int lasting = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    if (path != nullptr && (flags & lasting) != 0) {
      const std::scoped_lock lock{instance().mutex_};
      const auto [at, is_new] = instance().disks_.try_emplace(path);
      own->path = at->first.c_str();
      // What exists already existed before the boot.
      if (is_new) at->second.synced = whole(path);
    }
    own->base.pMethods = &instance().methods_;
    return SQLITE_OK;
  }
  static std::string whole(const char* path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  void make_methods() {
    methods_.iVersion = 2;  // Shared memory, but no mapped reads, which would bypass us.
    methods_.xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); };
    methods_.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return real(f)->pMethods->xRead(real(f), to, size, at);
    };
    methods_.xWrite = [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
      const std::scoped_lock lock{instance().mutex_};
      if (Disk* const it = disk(f)) {
        it->since.push_back(
            {at, {static_cast<const char*>(from), static_cast<std::size_t>(size)}, false});
      }
      return real(f)->pMethods->xWrite(real(f), from, size, at);
    };
    methods_.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      const std::scoped_lock lock{instance().mutex_};
      if (Disk* const it = disk(f)) it->since.push_back({size, {}, true});
      return real(f)->pMethods->xTruncate(real(f), size);
    };
    methods_.xSync = [](sqlite3_file* f, int flags) {
      const std::scoped_lock lock{instance().mutex_};
      if (Disk* const it = disk(f)) it->sync();
      return real(f)->pMethods->xSync(real(f), flags);
    };
    methods_.xFileSize = [](sqlite3_file* f, sqlite3_int64* out) {
      return real(f)->pMethods->xFileSize(real(f), out);
    };
    methods_.xLock = [](sqlite3_file* f, int how) {
      return real(f)->pMethods->xLock(real(f), how);
    };
    methods_.xUnlock = [](sqlite3_file* f, int how) {
      return real(f)->pMethods->xUnlock(real(f), how);
    };
    methods_.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return real(f)->pMethods->xCheckReservedLock(real(f), out);
    };
    methods_.xFileControl = [](sqlite3_file* f, int what, void* with) {
      return real(f)->pMethods->xFileControl(real(f), what, with);
    };
    methods_.xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); };
    methods_.xDeviceCharacteristics = [](sqlite3_file* f) {
      return real(f)->pMethods->xDeviceCharacteristics(real(f));
    };
    methods_.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
    };
    methods_.xShmLock = [](sqlite3_file* f, int at, int n, int flags) {
      return real(f)->pMethods->xShmLock(real(f), at, n, flags);
    };
    methods_.xShmBarrier = [](sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); };
    methods_.xShmUnmap = [](sqlite3_file* f, int remove) {
      return real(f)->pMethods->xShmUnmap(real(f), remove);
    };
  }

  std::mutex mutex_;
  sqlite3_vfs vfs_{};
  sqlite3_io_methods methods_{};
  std::map<std::string, Disk> disks_;
};

// What a process reports to the one that checks the files: through a file, because its memory is
// gone.
struct Told {
  std::uint64_t revision = 0;
  std::string durable;  // The last key that was written with full durability, or before a flush().
  int then = 0;         // The number of callbacks of apply_then that have run, in order.
};

std::string then_key(int round, int i) {
  return "t" + std::to_string(round) + "/" + std::to_string(i);
}

// Many at once; returns when about half of the callbacks have run.
int apply_many(Store& store, int round, int many) {
  static std::atomic<int> told = 0;
  for (int i = 0; i < many; ++i) {
    Txn one = txn({}, {Write::put(then_key(round, i), std::string(200, 't'))});
    one.durability = Durability::full;
    store.apply_then(std::move(one), [](const Outcome& outcome, const std::exception_ptr& error) {
      if (outcome.committed && !error) ++told;
    });
  }
  kit::until([&] { return told >= many / 2; });
  return told;
}

// One run of the machine, in a process that ends with the power: closing the store would write
// more.
[[noreturn]] void run_machine(const std::filesystem::path& path,
                              const std::filesystem::path& report, unsigned seed, int round) {
  std::mt19937 random{seed};
  SqliteOptions options = alone();
  std::ignore = PowerLossVfs::instance();
  options.vfs = PowerLossVfs::name;
  options.boot = "boot " + std::to_string(round);
  const auto store = open_sqlite(path, options);
  Told told;
  const int applies = std::uniform_int_distribution<int>{0, 400}(random);
  for (int i = 0; i < applies; ++i) {
    const std::string key = "r" + std::to_string(round) + "/" + std::to_string(i);
    const bool full = random() % 16 == 0;
    const std::string value(random() % 3000, 'v');
    told.revision = put(*store, key, value, full ? Durability::full : Durability::relaxed).value;
    if (full) told.durable = key;
    if (random() % 64 == 0) {
      store->flush();
      told.durable = key;
    }
  }
  told.then = apply_many(*store, round, static_cast<int>(random() % 600));
  std::ofstream{report} << told.revision << ' ' << told.then << ' ' << told.durable << '\n';
  PowerLossVfs::instance().lose_power(random);
}

TEST(SqlitePowerLoss, KeepsWhatWasDurableAndRepeatsNoRevision) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::fflush(stdout);
  const Directory directory;
  const std::filesystem::path path = directory / "app.db";
  Revision last;
  std::vector<std::string> durable;
  const std::filesystem::path side = directory / "app.db-tenure";
  const auto bytes = [](const std::filesystem::path& file) {
    std::ifstream in{file, std::ios::binary};
    return std::string{std::istreambuf_iterator<char>{in}, {}};
  };
  for (int round = 0; round < 12; ++round) {
    const std::string old_side = bytes(side);
    Children machine;
    machine.start(1, [&](std::size_t) -> int {
      run_machine(path, directory / "report", seed + static_cast<unsigned>(round), round);
    });
    ASSERT_EQ(machine.exit_statuses(), std::vector{0}) << "round " << round;
    Told told;
    std::string key;
    std::ifstream report{directory / "report"};
    report >> told.revision >> told.then >> key;
    if (!key.empty()) durable.push_back(key);
    for (int i = 0; i < told.then; ++i) durable.push_back(then_key(round, i));
    last = std::max(last, Revision{told.revision});
    // The log's index is in memory that a boot clears.
    std::filesystem::remove(directory / "app.db-shm");
    // Nobody syncs the side file, so its counts are old.
    if (!old_side.empty()) std::ofstream{side, std::ios::binary | std::ios::in} << old_side;

    SqliteOptions options = alone();
    options.boot = "look " + std::to_string(round);
    const auto store = open_sqlite(path, options);
    for (const std::string& kept : durable) {
      ASSERT_NE(value_of(*store, kept), "none") << kept << " in round " << round;
    }
    const Revision next = put(*store, "next");
    ASSERT_GT(next, last);
    last = next;
  }
  EXPECT_FALSE(durable.empty()) << "nothing was written that had to last";
}

}  // namespace
}  // namespace tenure::sqlite

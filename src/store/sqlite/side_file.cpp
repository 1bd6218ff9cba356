#include "store/sqlite/side_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "store/session_entry.hpp"
#include "store/sqlite/refusal.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {
namespace {

constexpr std::array<char, 8> magic = {'t', 'e', 'n', 'u', 'r', 'e', '\r', '\n'};
constexpr std::uint32_t layout_version = 2;
constexpr std::uint32_t version_without_log = 1;
constexpr std::size_t size_without_log = offsetof(Shared, log);
constexpr int most_turns = 8;

constexpr std::int64_t crowd_lasts_ns = 50'000'000;

}  // namespace

std::int64_t coarse_clock_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000) + time.tv_nsec;
}

std::size_t key_bucket(std::string_view key) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: all processes must compute the same hash.
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return (hash ^ hash >> 32U) % key_buckets;
}

std::size_t first_byte_bucket(std::string_view key) noexcept {
  return key_buckets + (key.empty() ? 0 : static_cast<unsigned char>(key.front()));
}

int lock_byte(int fd, LockType type, Byte byte, bool wait) noexcept {
  struct flock lock{};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  while (::fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void unlock_byte(int fd, Byte byte) noexcept {
  std::ignore = lock_byte(fd, LockType::none, byte, false);
}

bool write_locked(int fd, Byte byte) noexcept {
  struct flock lock{};
  lock.l_type = F_RDLCK;  // Conflicts only with a write lock.
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  // An error says nothing about the session: reporting a live session as dead would be worse than
  // the opposite.
  return ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::optional<Byte> session_byte(std::string_view id) noexcept {
  std::int64_t byte = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), byte, 16);
  if (id.size() != 16 || error != std::errc{} || end != id.data() + id.size()) return {};
  if (byte < first_session_byte) return {};
  return Byte{byte};
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) throw Error("getrandom() failed: " + text_of(errno));
  }
  return number;
}

FileId file_id(const struct stat& status) noexcept {
  return {.device = status.st_dev, .inode = status.st_ino};
}

std::optional<FileId> file_id(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  return file_id(status);
}

SideFile::SideFile(std::filesystem::path path, const Owner& owner) : path_(std::move(path)) {
  try {
    open_locked(owner);
    check_owner(owner);
    struct stat status{};
    ::fstat(gate_->get(), &status);
    id_ = file_id(status);
    if (status.st_size == 0) make(owner);
    probe_ = std::make_shared<Descriptor>(path_.c_str(), O_RDWR | O_NOFOLLOW);
    if (probe_->get() < 0) refuse(path_, "can't be opened: " + text_of(errno));
    map();
  } catch (...) {
    if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
    if (made_) ::unlink(path_.c_str());
    throw;
  }
}

SideFile::~SideFile() {
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
  // Under the opening lock: a process that waits for it looks at the path again.
  if (opening_ && made_) ::unlink(path_.c_str());
}

void SideFile::done() noexcept {
  unlock_byte(gate_->get(), opening_byte);
  opening_ = false;
}

void SideFile::open_locked(const Owner& owner) {
  while (true) {
    gate_ = std::make_unique<Descriptor>(path_.c_str(), O_RDWR | O_NOFOLLOW);
    if (gate_->get() < 0 && errno == ENOENT) {
      gate_ = std::make_unique<Descriptor>(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
                                           owner.mode);
      if (gate_->get() < 0 && errno == EEXIST) continue;
      made_ = gate_->get() >= 0;
    }
    if (gate_->get() < 0 && errno == ELOOP) {
      refuse(path_, "is a symbolic link, but Tenure creates this file itself: remove the link");
    }
    if (gate_->get() < 0) refuse(path_, "can't be opened: " + text_of(errno));
    if (const int error = lock_byte(gate_->get(), LockType::write, opening_byte, true);
        error != 0) {
      refuse(path_, "can't be locked: " + text_of(error) + "; use a local file system");
    }
    opening_ = true;
    struct stat mine{};
    struct stat there{};
    if (::fstat(gate_->get(), &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
      return;
    }
    made_ = false;  // The process that created it could not use it, and removed it.
  }
}

void SideFile::check_owner(const Owner& owner) const {
  struct stat status{};
  ::fstat(gate_->get(), &status);
  if (!S_ISREG(status.st_mode)) refuse(path_, "is not a regular file: remove it");
  if (made_ || status.st_uid == owner.uid) return;
  refuse(path_, "belongs to user " + std::to_string(status.st_uid) + ", the database to user " +
                    std::to_string(owner.uid) + ": give both files to the same user (chown)");
}

void SideFile::make(const Owner& owner) {
  // Every user of the database may use this file, whatever the umask; root creates it for the
  // database's owner.
  if (made_) {
    if (::geteuid() == 0) std::ignore = ::fchown(gate_->get(), owner.uid, owner.gid);
    ::fchmod(gate_->get(), owner.mode);
  }
  // Allocates all blocks now: a mapped page without a block would be a SIGBUS later, not an error.
  if (const int error = ::posix_fallocate(gate_->get(), 0, sizeof(Shared)); error != 0) {
    std::ignore = ::ftruncate(gate_->get(), 0);
    refuse(path_, "can't be created: " + text_of(error));
  }
}

// Version 1 ended before the log, and is otherwise the same. Processes of version 1 may still use
// the file and log nothing; readers notice the gaps between revisions.
void SideFile::add_log() const {
  Header old{};
  if (::pread(gate_->get(), static_cast<void*>(&old), sizeof old, 0) != sizeof old) return;
  if (old.magic != magic || old.version != version_without_log) return;
  if (const int error = ::posix_fallocate(gate_->get(), 0, sizeof(Shared)); error != 0) {
    refuse(path_, "can't be extended: " + text_of(error));
  }
}

void SideFile::map() {
  struct stat status{};
  ::fstat(gate_->get(), &status);
  if (status.st_size == size_without_log) add_log();
  ::fstat(gate_->get(), &status);
  const auto refused = [this] {
    refuse(path_,
           "is not a file of this version of Tenure: stop all programs that use the "
           "database, remove this file, and retry");
  };
  if (status.st_size != sizeof(Shared)) refused();
  void* const at =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, gate_->get(), 0);
  if (at == MAP_FAILED) refuse(path_, "can't be mapped: " + text_of(errno));
  shared_ = static_cast<Shared*>(at);
  Header& header = shared_->header;
  if (header.version == 0 && header.magic == std::array<char, 8>{}) {
    const std::string identity =
        stores::session_id(random_number()) + stores::session_id(random_number());
    std::memcpy(header.identity.data(), identity.data(), header.identity.size());
    header.version = layout_version;
    header.magic = magic;
  }
  if (header.magic == magic && header.version == version_without_log) {
    header.version = layout_version;
  }
  if (header.magic != magic || header.version != layout_version) refused();
}

std::string SideFile::identity() const {
  return {header().identity.data(), header().identity.size()};
}

// The holder of the queue byte is next. Only a process that has just left the gate can overtake it,
// a few times in a row: two processes in strict turns would pay for two context switches per apply,
// and run at half the speed.
bool SideFile::crowded(std::int64_t now) const noexcept {
  return header().crowded.load(std::memory_order_relaxed) >= now;
}

void SideFile::say_crowded(std::int64_t now) const noexcept {
  header().crowded.store(now + crowd_lasts_ns, std::memory_order_relaxed);
}

void SideFile::enter_gate() {
  if (turns_ < most_turns && lock_byte(gate_->get(), LockType::write, gate_byte, false) == 0) {
    ++turns_;
    return;
  }
  turns_ = 0;
  int error = lock_byte(gate_->get(), LockType::write, gate_queue_byte, true);
  if (error == 0) error = lock_byte(gate_->get(), LockType::write, gate_byte, true);
  unlock_byte(gate_->get(), gate_queue_byte);
  if (error != 0) refuse(path_, "can't be locked for writing: " + text_of(error));
}

void SideFile::raise_decided(std::uint64_t revision) const noexcept {
  std::atomic<std::uint64_t>& decided = header().decided;
  std::uint64_t before = decided.load();
  while (before < revision && !decided.compare_exchange_weak(before, revision)) {
  }
}

void SideFile::leave_gate() const noexcept { unlock_byte(gate_->get(), gate_byte); }

}  // namespace tenure::sqlite

#include "pipeline/edits/file_edits.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "pipeline/edits/content.hpp"
#include "pipeline/edits/protocol.hpp"

namespace tenure::pipeline {
namespace {

using Reports = std::vector<EditReport>;

// One process at a time makes a session or clears up after dead ones.
Descriptor lock_directory(const FilePath& directory) {
  Descriptor lock{::open((directory / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock.is_open()) throw std::system_error(errno, std::generic_category(), "open the lock");
  while (::flock(lock.number(), LOCK_EX) != 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "lock");
  }
  return lock;
}

// The edits of a session of which something is left, by number.
std::vector<std::uint64_t> numbers_in(const FilePath& session) {
  std::vector<std::uint64_t> numbers;
  for (const auto& entry : std::filesystem::directory_iterator{session}) {
    const std::string name = entry.path().filename().string();
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec != std::errc{} || *parsed.ptr != '.') continue;
    if (std::ranges::count(numbers, number) == 0) numbers.push_back(number);
  }
  return numbers;
}

FilePath kept_name(const FilePath& session, std::uint64_t number, const FilePath& file) {
  return session.parent_path() / "kept" /
         (session.filename().string() + "-" + std::to_string(number) + "-" +
          file.filename().string());
}

void make_if_missing(Disk& disk, const FilePath& directory) {
  if (std::filesystem::is_directory(directory)) return;
  disk.make_directory(directory);
  disk.sync_directory(directory.parent_path());
}

EditReport restore_number(Disk& disk, const FilePath& session, std::uint64_t number) {
  const EditNames names{.directory = session, .number = number};
  const std::optional<std::string> text = read_file(names.name("journal"));
  if (!text) {
    remove_leftovers(disk, names);
    return {};
  }
  const std::optional<Record> record = parse_record(*text);
  if (!record) {
    return {.file = names.name("journal"),
            .outcome = EditReport::Outcome::failed,
            .message = "'" + names.name("journal").string() +
                       "' is not a journal of this program: the copies beside it are kept"};
  }
  make_if_missing(disk, session.parent_path() / "kept");
  return restore_edit(disk, names, *record, kept_name(session, number, record->file));
}

void remove_session(Disk& disk, const FilePath& session) {
  if (!numbers_in(session).empty()) return;
  if (is_there(session / "lock")) disk.remove(session / "lock");
  disk.remove_directory(session);
}

Reports restore_session(Disk& disk, const FilePath& session) {
  Reports reports;
  for (const std::uint64_t number : numbers_in(session)) {
    EditReport report = restore_number(disk, session, number);
    if (!report.file.empty()) reports.push_back(std::move(report));
  }
  remove_session(disk, session);
  return reports;
}

// The caller has the directory's lock.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): named at every call.
Reports restore_dead(Disk& disk, const FilePath& directory, const FilePath& own) {
  Reports reports;
  std::vector<FilePath> sessions;
  for (const auto& entry : std::filesystem::directory_iterator{directory}) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("session-") && entry.path() != own) sessions.push_back(entry.path());
  }
  for (const FilePath& session : sessions) {
    Descriptor lock;
    if (is_there(session / "lock")) {
      lock = open_locked(session / "lock");
      if (!lock.is_open()) continue;  // It lives.
    }
    for (EditReport& report : restore_session(disk, session)) reports.push_back(std::move(report));
  }
  return reports;
}

// As messages of this room begin.
EditError directory_error(const FilePath& directory, const std::system_error& error) {
  // NOLINTNEXTLINE(modernize-return-braced-init-list): the constructor is explicit.
  return EditError("the directory of edits '" + directory.string() +
                   "' can't be used: " + error.what() + ": make it readable and writable");
}

}  // namespace

class EditSession::Impl {
 public:
  Impl(const FilePath& directory, Disk& disk)
      : disk_(disk), root_(std::filesystem::absolute(directory)) {
    std::filesystem::create_directories(root_);
    root_ = std::filesystem::canonical(root_);
    const Descriptor lock = lock_directory(root_);
    session_ = root_ / ("session-" + new_id());
    recovered_ = restore_dead(disk_, root_, session_);
    disk_.make_directory(session_);
    disk_.create(session_ / "lock", "");
    alive_ = open_locked(session_ / "lock");
    disk_.sync_directory(root_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    try {
      const Descriptor lock = lock_directory(root_);
      remove_session(disk_, session_);
    } catch (const std::exception&) {
      return;  // What is left, the next session removes.
    }
  }

  [[nodiscard]] Disk& disk() noexcept { return disk_; }
  [[nodiscard]] Reports take_recovered() { return std::move(recovered_); }
  [[nodiscard]] EditNames next_names() { return {.directory = session_, .number = ++last_}; }
  [[nodiscard]] FilePath kept(const Edited& edited) const {
    return kept_name(session_, edited.names.number, edited.record.file);
  }
  [[nodiscard]] FilePath kept_directory() const { return root_ / "kept"; }

  // A process that died since this one started may have left an edited file behind: what it changed
  // the file to must not be taken for the original.
  void clear_up_before(const std::vector<FilePath>& files) {
    const Descriptor lock = lock_directory(root_);
    for (const EditReport& report : restore_dead(disk_, root_, session_)) {
      const bool ours = std::ranges::count(files, report.file) != 0;
      if (ours && report.outcome == EditReport::Outcome::failed) throw EditError(report.message);
    }
  }

 private:
  Disk& disk_;
  FilePath root_;
  FilePath session_;
  Descriptor alive_;
  Reports recovered_;
  std::atomic<std::uint64_t> last_ = 0;
};

EditSession::EditSession(const FilePath& directory) : EditSession(directory, Disk::system()) {}

EditSession::EditSession(const FilePath& directory, Disk& disk) {
  try {
    impl_ = std::make_unique<Impl>(directory, disk);
  } catch (const std::system_error& error) {
    throw directory_error(directory, error);
  }
  recovered_ = impl_->take_recovered();
}

EditSession::~EditSession() = default;

class FileEdits::Impl {
 public:
  explicit Impl(EditSession::Impl& session) : session_(session) {}

  void make(const std::vector<Edit>& edits, const FilePath& directory) {
    std::vector<std::pair<FilePath, std::vector<const Edit*>>> files;
    std::vector<FilePath> names;
    for (const Edit& edit : edits) {
      std::error_code error;
      const FilePath file = std::filesystem::canonical(directory / edit.file, error);
      if (error) {
        throw EditError("'" + (directory / edit.file).string() +
                        "' can't be edited: " + error.message() + ": check the name in `edits`");
      }
      const auto same = std::ranges::find(files, file, [](const auto& one) { return one.first; });
      if (same != files.end()) {
        same->second.push_back(&edit);
      } else {
        names.push_back(file);
        files.push_back({file, {&edit}});
      }
    }
    if (files.empty()) return;
    session_.clear_up_before(names);
    for (const auto& [file, changes] : files) {
      edited_.push_back(
          make_edit(session_.disk(), session_.next_names(), file,
                    [&](const std::string& bytes) { return change_all(file, bytes, changes); }));
    }
  }

  Reports restore() {
    Reports reports;
    // The last one first, as they were made.
    while (!edited_.empty()) {
      const Edited one = std::move(edited_.back());
      edited_.pop_back();
      try {
        make_if_missing(session_.disk(), session_.kept_directory());
        // NOLINTNEXTLINE(bugprone-empty-catch): see below.
      } catch (const std::system_error&) {
        // restore_edit() says so if it needs it.
      }
      reports.push_back(restore_edit(session_.disk(), one.names, one.record, session_.kept(one)));
    }
    return reports;
  }

 private:
  static std::string change_all(const FilePath& file, std::string bytes,
                                const std::vector<const Edit*>& changes) {
    for (const Edit* const edit : changes) {
      auto changed = edited_content(bytes, *edit);
      if (!changed) {
        throw EditError("'" + file.string() + "' can't be edited: " + changed.error());
      }
      bytes = *std::move(changed);
    }
    return bytes;
  }

  EditSession::Impl& session_;
  std::vector<Edited> edited_;
};

FileEdits::FileEdits(EditSession& session, const std::vector<Edit>& edits,
                     const FilePath& directory)
    : impl_(std::make_unique<Impl>(*session.impl_)) {
  try {
    impl_->make(edits, directory);
  } catch (const std::system_error& error) {
    impl_->restore();
    throw directory_error(directory, error);
  } catch (...) {
    impl_->restore();
    throw;
  }
}

FileEdits::FileEdits(FileEdits&& other) noexcept = default;
FileEdits& FileEdits::operator=(FileEdits&& other) noexcept {
  if (this != &other) {
    restore();
    impl_ = std::move(other.impl_);
  }
  return *this;
}
FileEdits::~FileEdits() { restore(); }

std::vector<EditReport> FileEdits::restore() { return impl_ ? impl_->restore() : Reports{}; }

std::vector<EditReport> restore_edits(const FilePath& directory) {
  return restore_edits(directory, Disk::system());
}

std::vector<EditReport> restore_edits(const FilePath& directory, Disk& disk) {
  try {
    if (!std::filesystem::is_directory(directory)) return {};
    const FilePath root = std::filesystem::canonical(directory);
    const Descriptor lock = lock_directory(root);
    return restore_dead(disk, root, {});
  } catch (const std::system_error& error) {
    throw directory_error(directory, error);
  }
}

}  // namespace tenure::pipeline

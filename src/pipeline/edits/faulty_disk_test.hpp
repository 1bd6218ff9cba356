// faulty_disk_test.hpp: disks on which the process or the machine stops after any operation.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "pipeline/edits/disk.hpp"

namespace tenure::pipeline {

// Counts operations, and calls `stop` after the n-th.
class CountingDisk : public Disk {
 public:
  CountingDisk(int stop_after, std::function<void()> stop)
      : left_(stop_after), stop_(std::move(stop)) {}

  void make_directory(const FilePath& path) override { Disk::make_directory(path), count(); }
  void create(const FilePath& path, std::string_view bytes, int like, Times times) override {
    Disk::create(path, bytes, like, times), count();
  }
  void sync(const FilePath& file) override { Disk::sync(file), count(); }
  void sync_directory(const FilePath& directory) override {
    Disk::sync_directory(directory), count();
  }
  void rename(const FilePath& from, const FilePath& to) override {
    Disk::rename(from, to), count();
  }
  void exchange(const FilePath& a, const FilePath& b) override { Disk::exchange(a, b), count(); }
  void put_back(const FilePath& from, const FilePath& to) override {
    Disk::put_back(from, to), count();
  }
  void remove(const FilePath& file) override { Disk::remove(file), count(); }
  void remove_directory(const FilePath& directory) override {
    Disk::remove_directory(directory), count();
  }

 protected:
  void count() {
    if (--left_ == 0) stop_();
  }

 private:
  int left_;
  std::function<void()> stop_;
};

// Remembers what is on disk for certain: bytes of synced files, and names in synced directories.
// When the power is lost, the rest is there or not. Inodes stay what they are: each has a second
// name in a graveyard, from which lost names come back.
class PowerLossDisk : public Disk {
 public:
  // `roots`: what is there already is on disk. `apart`: files below it can't be exchanged with
  // others, as if it were another file system; empty: none.
  PowerLossDisk(FilePath graveyard, const std::vector<FilePath>& roots, int stop_after,
                unsigned seed, FilePath apart = {})
      : graveyard_(std::move(graveyard)),
        apart_(std::move(apart)),
        left_(stop_after),
        random_(seed) {
    for (const FilePath& root : roots) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator{root}) {
        if (!entry.is_regular_file() || entry.path().string().contains("/.git/")) continue;
        const std::uint64_t inode = bury(entry.path());
        names_[entry.path()] = inode;
        synced_[inode] = read_file(entry.path()).value();
      }
    }
  }

  void make_directory(const FilePath& path) override { Disk::make_directory(path), count(); }
  void create(const FilePath& path, std::string_view bytes, int like, Times times) override {
    Disk::create(path, bytes, like, times);
    const std::uint64_t inode = bury(path);
    change({path}, [path, inode](Names& names) { names[path] = inode; });
  }
  void sync(const FilePath& file) override {
    Disk::sync(file);
    synced_[identity_of(file)->inode] = read_file(file).value();
    count();
  }
  void sync_directory(const FilePath& directory) override {
    Disk::sync_directory(directory);
    for (Change& one : pending_) one.directories.erase(directory);
    std::erase_if(pending_, [this](const Change& one) {
      if (one.directories.empty()) one.make(names_);
      return one.directories.empty();
    });
    count();
  }
  void rename(const FilePath& from, const FilePath& to) override {
    Disk::rename(from, to);
    change({from, to}, mover(from, to));
  }
  void exchange(const FilePath& a, const FilePath& b) override {
    if (!apart_.empty() && a.string().starts_with(apart_.string())) {
      throw std::system_error(EXDEV, std::generic_category());
    }
    Disk::exchange(a, b);
    change({a, b}, [a, b](Names& names) {
      if (names.contains(a) && names.contains(b)) std::swap(names[a], names[b]);
    });
  }
  void put_back(const FilePath& from, const FilePath& to) override {
    Disk::put_back(from, to);
    change({from, to}, mover(from, to));
  }
  void remove(const FilePath& file) override {
    Disk::remove(file);
    change({file}, [file](Names& names) { names.erase(file); });
  }
  void remove_directory(const FilePath& directory) override {
    Disk::remove_directory(directory), count();
  }

 private:
  using Names = std::map<FilePath, std::uint64_t>;
  struct Change {
    std::set<FilePath> directories;  // That were not synced since.
    std::function<void(Names&)> make;
  };

  static std::function<void(Names&)> mover(const FilePath& from, const FilePath& to) {
    return [from, to](Names& names) {
      if (!names.contains(from)) return;
      names[to] = names[from];
      names.erase(from);
    };
  }

  std::uint64_t bury(const FilePath& path) {
    const std::uint64_t inode = identity_of(path)->inode;
    std::error_code there;
    std::filesystem::create_hard_link(path, graveyard_ / std::to_string(inode), there);
    return inode;
  }

  void change(const std::vector<FilePath>& paths, std::function<void(Names&)> make) {
    Change one{.directories = {}, .make = std::move(make)};
    for (const FilePath& path : paths) {
      one.directories.insert(path.parent_path());
      touched_.insert(path);
    }
    pending_.push_back(std::move(one));
    count();
  }

  void count() {
    if (--left_ == 0) lose_power();
  }

  [[noreturn]] void lose_power() {
    // In order up to some point, as a file system with a journal does, or any of them.
    const bool in_order = random_() % 2 == 0;
    const std::size_t kept = random_() % (pending_.size() + 1);
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (in_order ? i < kept : random_() % 2 == 0) pending_[i].make(names_);
    }
    for (const auto& [name, inode] : names_) touched_.insert(name);
    for (const FilePath& name : touched_) {
      std::error_code ignored;
      std::filesystem::remove(name, ignored);
    }
    for (const auto& [name, inode] : names_) {
      const FilePath grave = graveyard_ / std::to_string(inode);
      std::string bytes = read_file(grave).value();
      const auto synced = synced_.find(inode);
      if (synced != synced_.end()) {
        bytes = synced->second;
      } else {
        bytes.resize(random_() % (bytes.size() + 1));
      }
      if (read_file(grave) != bytes) {
        std::ofstream{grave, std::ios::binary | std::ios::trunc} << bytes;
      }
      std::filesystem::create_directories(name.parent_path());
      std::filesystem::create_hard_link(grave, name);
    }
    ::_exit(7);
  }

  const FilePath graveyard_;
  const FilePath apart_;
  int left_;
  std::mt19937 random_;
  Names names_;  // On disk for certain.
  std::map<std::uint64_t, std::string> synced_;
  std::vector<Change> pending_;
  std::set<FilePath> touched_;
};

}  // namespace tenure::pipeline

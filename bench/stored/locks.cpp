#include "bench/stored/locks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "bench/stored/ours.hpp"
#include "bench/stored/sqlite.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::stored {
namespace {

std::filesystem::path with_suffix(const Meeting& meeting, std::string_view suffix) {
  return meeting.file.string() + std::string{suffix};
}

class Ours : public Lock {
 public:
  explicit Ours(const Meeting& meeting) : space_(open_file(with_suffix(meeting, ".tenure"))) {}
  void acquire() override { hold_ = space_.lock(book); }
  void release() override { hold_.release(); }

 private:
  Space space_;
  Hold hold_;
};

class Futex : public Lock {
 public:
  Futex(const Meeting& meeting, std::uint32_t side) : baton_(*meeting.baton), side_(side) {}
  void acquire() override { baton_.wait_for(side_); }
  void release() override { baton_.set(1 - side_); }

 private:
  Signal& baton_;
  std::uint32_t side_;
};

// The two sides write alternately, like two processes that release in turn: each finds pages that
// the other one has changed.
class Control : public Lock {
 public:
  Control(const Meeting& meeting, std::uint32_t side)
      : futex_(meeting, side), tickets_(with_suffix(meeting, ".control")), side_(side) {}
  void acquire() override {
    futex_.acquire();
    (void)tickets_.has("book");
  }
  void release() override {
    side_ == 0 ? tickets_.insert("book") : tickets_.remove("book");
    futex_.release();
  }

 private:
  Futex futex_;
  Tickets tickets_;
  std::uint32_t side_;
};

class Flock : public Lock {
 public:
  explicit Flock(const Meeting& meeting)
      : file_(::open(with_suffix(meeting, ".flock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), "open");
  }
  Flock(const Flock&) = delete;
  Flock& operator=(const Flock&) = delete;
  ~Flock() override { ::close(file_); }
  void acquire() override {
    if (::flock(file_, LOCK_EX) != 0) {
      throw std::system_error(errno, std::generic_category(), "flock");
    }
  }
  void release() override { ::flock(file_, LOCK_UN); }

 private:
  int file_;
};

class Polling : public Lock {
 public:
  explicit Polling(const Meeting& meeting) : queue_(with_suffix(meeting, ".polling")) {}
  void acquire() override { queue_.lock(); }
  void release() override { queue_.unlock(); }

 private:
  PollingQueue queue_;
};

}  // namespace

std::unique_ptr<Lock> make_lock(Kind kind, const Meeting& meeting, std::uint32_t side) {
  switch (kind) {
    case Kind::ours: return std::make_unique<Ours>(meeting);
    case Kind::control: return std::make_unique<Control>(meeting, side);
    case Kind::futex: return std::make_unique<Futex>(meeting, side);
    case Kind::flock: return std::make_unique<Flock>(meeting);
    case Kind::polling: return std::make_unique<Polling>(meeting);
  }
  throw std::logic_error("no such lock");
}

}  // namespace tenure::bench::stored

#include "tests/faults/client.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "tenure/tenure.hpp"

namespace tenure::faults {
namespace {

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    (text += digits[byte >> 4U]) += digits[byte & 15U];
  }
  return text;
}

class Client {
 public:
  [[nodiscard]] std::string follow(const std::string& command) {
    std::istringstream words{command};
    std::string verb;
    std::string what;
    std::string more;
    words >> verb >> what >> more;
    if (verb == "open") return open_space(what, std::stol(more));
    if (verb == "lock") return take(locker().lock(museum::claim_of(what)));
    if (verb == "try") return take(locker().try_lock(museum::claim_of(what)));
    if (verb == "count") {
      return std::to_string(space_->inspect(museum::claim_of(what).path).size());
    }
    if (verb == "token") return std::to_string(hold_.token().value);
    if (verb == "key") return hex(hold_.guard().front().range.from);
    if (verb == "renew") return yes_or_no(hold_.renew());
    if (verb == "release") return yes_or_no(hold_.release());
    if (verb == "is") return yes_or_no(hold_.lost().stop_requested());
    if (verb == "until") return until_lost();
    if (verb == "write") return write(hold_.guard(), what, more);
    if (verb == "put") return write({}, what, more);
    if (verb == "read") return read(what);
    if (verb == "limit") {
      terms_ = space_->max_hold(std::chrono::nanoseconds{std::stoll(what)});
    } else if (verb == "drop") {
      hold_ = {};
    } else if (verb == "close") {
      hold_ = {};
      terms_.reset();
      space_.reset();
      store_.reset();
    } else {
      throw Error("no such command: " + command);
    }
    return "ok";
  }

 private:
  [[nodiscard]] const Locker& locker() const { return terms_ ? *terms_ : *space_; }

  std::string open_space(const std::string& url, long ttl) {
    store_ = store(url);
    space_.emplace(open(store_, {.label = "client", .ttl = std::chrono::milliseconds{ttl}}));
    return "ok";
  }
  std::string take(std::optional<Hold> hold) {
    if (!hold) return "taken";
    hold_ = *std::move(hold);
    static_cast<void>(hold_.lost());  // From now on it is looked after.
    return "holds";
  }
  std::string until_lost() {
    std::mutex mutex;
    std::condition_variable_any told;
    std::unique_lock lock{mutex};
    told.wait(lock, hold_.lost(), [] { return false; });
    return "lost";
  }
  std::string write(std::vector<Guard> guards, const std::string& key, const std::string& value) {
    Txn txn;
    txn.guards = std::move(guards);
    txn.writes.push_back(Write::put(key, value));
    return yes_or_no(store_->apply(txn).committed);
  }
  std::string read(const std::string& key) {
    Txn txn;
    txn.reads.push_back(Range::key(key));
    const Outcome outcome = store_->apply(txn);
    return outcome.reads.front().empty() ? "none" : outcome.reads.front().front().value;
  }

  std::shared_ptr<Store> store_;
  std::optional<Space> space_;
  std::optional<Locker> terms_;
  Hold hold_;
};

}  // namespace

museum::Process::Body client() {
  return [](const museum::Line& line) {
    Client self;
    for (auto command = line.hear(); command && *command != "exit"; command = line.hear()) {
      try {
        line.say(self.follow(*command));
      } catch (const Error& error) {
        line.say(std::string{"error: "} + error.what());
      }
    }
  };
}

std::string url_at(int port, const std::string& schema) {
  return "postgres://tenure@127.0.0.1:" + std::to_string(port) +
         "/postgres?sslmode=disable&gssencmode=disable&connect_timeout=4&tcp_user_timeout=2000"
         "&tenure_schema=" +
         schema;
}

}  // namespace tenure::faults

#include "tests/cluster/client.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>

#include "tenure/tenure.hpp"
#include "tests/museum/clock.hpp"
#include "tests/stress/event.hpp"

namespace tenure::cluster {
namespace {

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

class Client {
 public:
  [[nodiscard]] std::string follow(const std::string& command) {
    std::istringstream words{command};
    std::string verb;
    std::string what;
    std::string more;
    words >> verb >> what >> more;
    if (verb == "open") return open_space(what, std::stol(more));
    if (verb == "lock") return take(space_->lock(museum::claim_of(what)));
    if (verb == "try") return take(space_->try_lock(museum::claim_of(what)));
    if (verb == "token") return std::to_string(hold_.token().value);
    if (verb == "granted") return std::to_string(granted_at_);
    if (verb == "lost") return lost_at_.load() == 0 ? "never" : std::to_string(lost_at_.load());
    if (verb == "release") return yes_or_no(hold_.release());
    if (verb == "is") return yes_or_no(hold_.lost().stop_requested());
    if (verb == "until") return until_lost();
    if (verb == "write") return write(what, more);
    if (verb == "wall") {
      museum::move_wall_clock(std::chrono::seconds{std::stol(what)});
    } else if (verb == "close") {
      on_lost_.reset();
      hold_ = {};
      space_.reset();
      store_.reset();
    } else {
      throw Error("no such command: " + command);
    }
    return "ok";
  }

 private:
  std::string open_space(const std::string& url, long ttl) {
    store_ = store(url);
    space_.emplace(open(store_, {.label = "client", .ttl = std::chrono::milliseconds{ttl}}));
    return "ok";
  }
  std::string take(std::optional<Hold> hold) {
    if (!hold) return "taken";
    granted_at_ = stress::boot_ns();
    on_lost_.reset();
    hold_ = *std::move(hold);
    lost_at_.store(0);
    on_lost_.emplace(hold_.lost(), [this] {
      lost_at_.store(stress::boot_ns());
      lost_at_.notify_all();
    });
    return "holds";
  }
  std::string until_lost() {
    lost_at_.wait(0);
    return std::to_string(lost_at_.load());
  }
  std::string write(const std::string& key, const std::string& value) {
    Txn txn;
    txn.guards = hold_.guard();
    txn.writes.push_back(Write::put(key, value));
    return yes_or_no(store_->apply(txn).committed);
  }

  std::shared_ptr<Store> store_;
  std::optional<Space> space_;
  Hold hold_;
  std::int64_t granted_at_ = 0;
  std::atomic<std::int64_t> lost_at_ = 0;
  std::optional<std::stop_callback<std::function<void()>>> on_lost_;
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

}  // namespace tenure::cluster

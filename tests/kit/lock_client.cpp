#include "tests/kit/lock_client.hpp"

#include <csignal>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/boot_clock.hpp"
#include "tenure/tenure.hpp"

namespace tenure::kit {
namespace {

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

using base::boot_ns;

sigset_t interrupts() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

// Turns SIGINT, which is blocked in all threads, into a stop for as long as it exists.
class Interruption {
 public:
  Interruption()
      : thread_([this](const std::stop_token& done) {
          const sigset_t signals = interrupts();
          int number = 0;
          ::sigwait(&signals, &number);
          if (!done.stop_requested()) stop_.request_stop();
        }) {}
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption() {
    thread_.request_stop();
    if (!stop_.stop_requested()) ::pthread_kill(thread_.native_handle(), SIGUSR1);
  }
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::jthread thread_;
};

class LockClient {
 public:
  explicit LockClient(MoreCommands more) : more_(std::move(more)) {}

  [[nodiscard]] std::string follow(const std::string& command) {
    std::istringstream words{command};
    std::string verb;
    Words rest;
    words >> verb >> rest.first >> rest.second;
    if (const auto known = commands().find(verb); known != commands().end()) {
      return (this->*known->second)(rest);
    }
    if (more_) {
      if (auto answer = more_(command)) return *std::move(answer);
    }
    throw Error("no such command: " + command);
  }

  void open_in(std::shared_ptr<Store> store) {
    store_ = std::move(store);
    space_.emplace(open(store_, {.label = "client", .ttl = std::chrono::hours{1}}));
  }

 private:
  struct Words {
    std::string first;
    std::string second;
  };
  using Command = std::string (LockClient::*)(const Words& words);

  static const std::map<std::string, Command, std::less<>>& commands() {
    static const std::map<std::string, Command, std::less<>> all = {
        {"open", &LockClient::open_space},  {"close", &LockClient::close},
        {"lock", &LockClient::lock},        {"try", &LockClient::try_lock},
        {"within", &LockClient::within},    {"downgrade", &LockClient::downgrade},
        {"evict", &LockClient::evict},      {"limit", &LockClient::limit},
        {"renew", &LockClient::renew},      {"release", &LockClient::release},
        {"drop", &LockClient::drop},        {"token", &LockClient::token},
        {"key", &LockClient::key},          {"is", &LockClient::is_lost},
        {"until", &LockClient::until_lost}, {"granted", &LockClient::granted},
        {"lost", &LockClient::lost},        {"write", &LockClient::write},
        {"put", &LockClient::put},          {"read", &LockClient::read},
        {"count", &LockClient::count},      {"waiting", &LockClient::waiting},
        {"now", &LockClient::now}};
    return all;
  }

  [[nodiscard]] const Space& space() const {
    if (!space_) throw Error("no space is open: tell the client to open one");
    return *space_;
  }
  [[nodiscard]] Store& opened() const {
    static_cast<void>(space());
    return *store_;
  }
  [[nodiscard]] const Locker& locker() const { return terms_ ? *terms_ : space(); }

  std::string open_space(const Words& words) {
    store_ = store(words.first);
    const std::chrono::milliseconds ttl{std::stol(words.second)};
    space_.emplace(open(store_, {.label = "client", .ttl = ttl}));
    return "ok";
  }
  std::string close(const Words& words) {
    drop(words);
    if (space_) space_->close();
    terms_.reset();
    space_.reset();
    store_.reset();
    return "ok";
  }
  std::string lock(const Words& words) {
    const Interruption interruption;
    const Claim claim = claim_of(words.first);
    const std::string& owner = words.second;
    auto hold = owner.empty() ? locker().lock(claim, interruption.token())
                              : space().as(owner).lock(claim, interruption.token());
    return take(std::move(hold), "gave up");
  }
  std::string try_lock(const Words& words) {
    return take(locker().try_lock(claim_of(words.first)), "taken");
  }
  std::string take(std::optional<Hold> hold, const char* otherwise) {
    if (!hold) return otherwise;
    granted_at_ = boot_ns();
    on_lost_.reset();
    hold_ = *std::move(hold);
    lost_at_.store(0);
    on_lost_.emplace(hold_.lost(), [this] {
      lost_at_.store(boot_ns());
      lost_at_.notify_all();
    });
    return "holds";
  }
  std::string within(const Words& words) {
    const std::chrono::milliseconds limit{std::stol(words.second)};
    return take(locker().try_lock_for(claim_of(words.first), limit), "taken");
  }
  std::string downgrade(const Words& words) {
    hold_.downgrade(claim_of(words.first));
    return "ok";
  }
  std::string evict(const Words& words) {
    const Token token{std::stoull(words.first)};
    return yes_or_no(words.second == "now" ? space().evict_now(token) : space().evict(token));
  }
  std::string limit(const Words& words) {
    terms_ = space().max_hold(std::chrono::nanoseconds{std::stoll(words.first)});
    return "ok";
  }
  std::string renew(const Words& /*words*/) { return yes_or_no(hold_.renew()); }
  std::string release(const Words& /*words*/) { return yes_or_no(hold_.release()); }
  std::string drop(const Words& /*words*/) {
    on_lost_.reset();
    hold_ = {};
    return "ok";
  }
  std::string token(const Words& /*words*/) { return std::to_string(hold_.token().value); }
  std::string key(const Words& /*words*/) { return hex(hold_.guard().front().range.from); }
  std::string is_lost(const Words& /*words*/) { return yes_or_no(hold_.lost().stop_requested()); }
  std::string until_lost(const Words& /*words*/) {
    lost_at_.wait(0);
    return "lost";
  }
  std::string granted(const Words& /*words*/) { return std::to_string(granted_at_); }
  std::string lost(const Words& /*words*/) {
    return lost_at_.load() == 0 ? "never" : std::to_string(lost_at_.load());
  }

  std::string write(const Words& words) { return apply(hold_.guard(), words); }
  std::string put(const Words& words) { return apply({}, words); }
  std::string apply(std::vector<Guard> guards, const Words& words) {
    Txn txn;
    txn.guards = std::move(guards);
    txn.writes.push_back(Write::put(words.first, words.second));
    return yes_or_no(opened().apply(txn).committed);
  }
  std::string read(const Words& words) {
    Txn txn;
    txn.reads.push_back(Range::key(words.first));
    const Outcome outcome = opened().apply(txn);
    return outcome.reads.front().empty() ? "none" : outcome.reads.front().front().value;
  }

  std::string count(const Words& words) {
    const Path path = words.first.empty() ? Path{} : claim_of(words.first).path;
    return std::to_string(space().inspect(path).size());
  }
  std::string waiting(const Words& /*words*/) {
    return std::to_string(std::ranges::count(space().inspect(), false, &TicketInfo::granted));
  }
  std::string now(const Words& /*words*/) {
    return std::to_string(opened().now().time_since_epoch().count());
  }

  const MoreCommands more_;
  std::shared_ptr<Store> store_;
  std::optional<Space> space_;
  std::optional<Locker> terms_;
  Hold hold_;
  std::int64_t granted_at_ = 0;
  std::atomic<std::int64_t> lost_at_ = 0;
  std::optional<std::stop_callback<std::function<void()>>> on_lost_;  // Ends before the hold.
};

void serve(const Line& line, LockClient& client, const OpenStore& open) {
  const sigset_t signals = interrupts();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  bool opened = !open;
  for (auto command = line.hear(); command && *command != "exit"; command = line.hear()) {
    try {
      if (!opened) client.open_in(open());
      opened = true;
      line.say(client.follow(*command));
    } catch (const Error& error) {
      line.say(std::string{"error: "} + error.what());
    }
  }
}

}  // namespace

Process::Body lock_client(MoreCommands more) {
  return [more = std::move(more)](const Line& line) {
    LockClient client{more};
    serve(line, client, {});
  };
}

Process::Body lock_client(std::string url) {
  return lock_client(OpenStore{[url = std::move(url)] { return store(url); }});
}

Process::Body lock_client(OpenStore open) {
  return [open = std::move(open)](const Line& line) {
    LockClient client{{}};
    serve(line, client, open);
  };
}

Claim claim_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Path path = Path::parse(text.substr(0, colon)).value();
  if (colon == std::string_view::npos) return path.exclusive();
  const std::string_view mode = text.substr(colon + 1);
  const std::size_t limit = mode.find(':');
  const std::string_view group = mode.substr(0, limit);
  if (limit == std::string_view::npos) return group == "shared" ? path.shared() : path.group(group);
  return path.group(group,
                    static_cast<std::uint32_t>(std::stoul(std::string{mode}.substr(limit + 1))));
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    (text += digits[byte >> 4U]) += digits[byte & 15U];
  }
  return text;
}

std::size_t number_of(const std::string& answer) {
  if (answer.empty() || answer.find_first_not_of("0123456789") != std::string::npos) {
    throw Error("the client answered '" + answer + "', which is not a number");
  }
  return std::stoul(answer);
}

}  // namespace tenure::kit

#include "bench/scale/herd.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <vector>

#include "base/backoff.hpp"

namespace tenure::bench::scale {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double affected_share = 0.01;  // Of clients, in a herd that has recovered.

enum class Actor : unsigned char { renews, asks };

struct Client {
  explicit Client(const Figures& kind) : backoff(kind.first_pause, kind.longest_pause) {}
  double renewed = 0;              // When the last renewal that was answered was sent.
  std::array<double, 2> usable{};  // When the connection of each actor is. `never`: it has none.
  bool lost = false;               // The session.
  bool holds = false;              // It has to release, not to lock.
  bool asking = false;             // A request is under way.
  bool dead_ticket = false;        // Of a lost session, in the way of the next lock.
  std::array<bool, 2> failed{};    // The last attempt of each actor.
  unsigned turn = 0;               // Of the program's only valid event.
  base::Backoff backoff;
};

struct Event {
  double at = 0;
  std::size_t client = 0;
  Actor actor{};
  unsigned turn = 0;
  double sent = never;  // When the call was whose answer this is; otherwise the actor acts now.
  bool operator>(const Event& other) const noexcept { return at > other.at; }
};

class Herd {
 public:
  Herd(const Shard& shard, const Outage& outage, Late late, std::uint64_t seed)
      : shard_(shard),
        kind_(*shard.figures),
        outage_(outage),
        late_(late),
        random_(seed),
        pause_between_(shard.locks / shard.sessions),
        clients_(static_cast<std::size_t>(shard.sessions), Client{kind_}) {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const double interval = renewal_interval();
      clients_[i].renewed = -interval * share_(random_);
      if (!outage.silent) clients_[i].usable = {never, never};
      clients_[i].holds = share_(random_) < 0.5;
      renew_at(i, clients_[i].renewed + interval);
      ask_at(i, pause_between_(random_) / 2);
    }
  }

  Recovery run(double horizon) {
    const double end = outage_.seconds + horizon;
    while (events_.top().at < end) {
      const Event event = events_.top();
      events_.pop();
      if (event.actor == Actor::renews) {
        renew(event);
      } else if (event.turn == clients_[event.client].turn) {
        ask(event);
      }
      if (too_many_failed()) last_bad_ = event.at;
    }
    if (!too_many_failed()) {
      result_.seconds = std::max(last_bad_ - outage_.seconds, 0.0);
    }
    const auto count = static_cast<double>(clients_.size());
    result_.lost /= count;
    result_.given_up = jobs_ == 0 ? 0 : given_up_ / jobs_;
    return result_;
  }

 private:
  [[nodiscard]] double renewal_interval() {
    return shard_.lease * (kind_.earliest + ((kind_.latest - kind_.earliest) * share_(random_)));
  }
  [[nodiscard]] bool too_many_failed() const noexcept {
    return static_cast<double>(failed_) > affected_share * static_cast<double>(clients_.size());
  }
  [[nodiscard]] double trusted_until(const Client& client) const noexcept {
    return client.renewed + (shard_.lease * trusted_share);
  }
  [[nodiscard]] double& usable(Client& client, Actor actor) const noexcept {
    return client.usable[kind_.one_connection ? 0 : static_cast<std::size_t>(actor)];
  }
  // The next event of the renewing thread, or the moment at which it counts the session as lost.
  void renew_at(std::size_t i, double at, double sent = never) {
    events_.push({.at = std::min(at, trusted_until(clients_[i])),
                  .client = i,
                  .actor = Actor::renews,
                  .sent = sent});
  }
  // The next event of the program, instead of the one that it had.
  void ask_at(std::size_t i, double at, double sent = never) {
    const unsigned turn = ++clients_[i].turn;
    events_.push({.at = at, .client = i, .actor = Actor::asks, .turn = turn, .sent = sent});
  }

  void set_failed(Client& client, Actor actor, bool failed) {
    const bool before = client.failed[0] || client.failed[1];
    client.failed[static_cast<std::size_t>(actor)] = failed;
    const bool after = client.failed[0] || client.failed[1];
    if (after && !before) ++failed_;
    if (before && !after) --failed_;
  }

  // One job on the server. Returns when the client has its answer, or has given up.
  struct Answer {
    double at = 0;
    bool arrived = false;
  };
  Answer call(const Event& event, const Service& service, double limit) {
    if (event.at < outage_.seconds) return {.at = event.at + (outage_.silent ? limit : 0)};
    ++jobs_;
    const double wait = server_.backlog(event.at);
    result_.backlog = std::max(result_.backlog, wait);
    if (wait <= limit || late_ == Late::serves) {
      const double end = server_.arrive(event.at, service);
      if (end - event.at <= limit) return {.at = end, .arrived = true};
    }
    ++given_up_;
    return {.at = event.at + limit};
  }
  Answer connect(const Event& event, double limit) {
    double& usable_from = usable(clients_[event.client], event.actor);
    if (usable_from < never)
      return {.at = usable_from, .arrived = true};  // The other actor connects.
    const Answer answer = call(event, Service::fixed(kind_.connect), limit);
    if (answer.arrived) usable_from = answer.at;
    return answer;
  }

  void renew(const Event& event) {
    Client& client = clients_[event.client];
    if (event.at >= trusted_until(client)) {
      lose(event);
      return;
    }
    if (event.sent != never) {
      client.renewed = event.sent;
      set_failed(client, event.actor, false);
      renew_at(event.client, event.sent + renewal_interval());
      return;
    }
    const bool connected = usable(client, event.actor) <= event.at;
    const double limit = std::min(kind_.renew_limit * shard_.lease, kind_.longest_renewal);
    const Answer answer = connected
                              ? call(event, Service::fixed(kind_.renewal), limit)
                              : connect(event, kind_.one_connection ? limit : kind_.connect_limit);
    if (!answer.arrived) {
      usable(client, event.actor) = never;
      set_failed(client, event.actor, true);
      renew_at(event.client, answer.at + kind_.renew_retry);
    } else {
      renew_at(event.client, answer.at, connected ? event.at : never);
    }
  }

  // The program, which is told, asks again for what it had.
  void lose(const Event& event) {
    Client& client = clients_[event.client];
    client.lost = true;
    client.dead_ticket = client.holds;
    client.holds = false;
    set_failed(client, Actor::renews, false);
    set_failed(client, Actor::asks, true);
    ++result_.lost;
    if (client.asking) return;
    client.asking = true;
    ask_at(event.client, event.at);
  }

  void ask(const Event& event) {
    Client& client = clients_[event.client];
    if (event.sent != never && !client.lost) {
      done(event);
      return;
    }
    client.asking = true;
    if (usable(client, event.actor) > event.at) {
      follow(event, connect(event, kind_.connect_limit));
    } else if (client.lost) {
      const Answer answer = call(event, Service::fixed(kind_.open_session), kind_.call_limit);
      if (answer.arrived) {
        client.lost = false;
        client.renewed = event.at;
        renew_at(event.client, event.at + renewal_interval());
      }
      follow(event, answer);
    } else {
      const double applies = client.dead_ticket ? 2 : 1;
      const Service service{.few = applies * kind_.apply.few, .many = applies * kind_.apply.many};
      follow(event, call(event, service, kind_.call_limit), event.at);
    }
  }

  // A lock or a release was answered. The next request follows some time later.
  void done(const Event& event) {
    Client& client = clients_[event.client];
    client.dead_ticket = false;
    client.holds = !client.holds;
    client.asking = false;
    client.backoff.reset();
    set_failed(client, event.actor, false);
    ask_at(event.client, event.at + (pause_between_(random_) / 2));
  }

  // After one step of a request: the next one, or after a pause the same again.
  void follow(const Event& event, const Answer& answer, double sent = never) {
    Client& client = clients_[event.client];
    if (answer.arrived) {
      ask_at(event.client, answer.at, sent);
      return;
    }
    usable(client, event.actor) = never;
    set_failed(client, event.actor, true);
    const std::chrono::duration<double> pause = client.backoff.next(random_);
    ask_at(event.client, answer.at + pause.count());
  }

  const Shard shard_;
  const Figures& kind_;
  const Outage outage_;
  const Late late_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> share_{0, 1};
  std::exponential_distribution<double> pause_between_;  // Of two locks of a client.
  std::vector<Client> clients_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Server server_;
  Recovery result_;
  std::size_t failed_ = 0;  // Clients.
  double last_bad_ = 0;
  double jobs_ = 0;
  double given_up_ = 0;
};

}  // namespace

Recovery recover(const Shard& shard, const Outage& outage, Late late, Run run) {
  return Herd{shard, outage, late, run.seed}.run(run.seconds);
}

}  // namespace tenure::bench::scale

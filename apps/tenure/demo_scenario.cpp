#include "demo_scenario.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <utility>

namespace tenure::cli {
namespace {

constexpr std::size_t time_columns = 10;
constexpr std::size_t actor_columns = 17;
// A pause between two cues, so that people can follow. The actors' work takes microseconds.
constexpr std::chrono::milliseconds beat{40};

}  // namespace

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order in which they are printed.
DemoScenario::DemoScenario(const Terminal& terminal, std::string_view title, std::string_view story,
                           std::vector<std::string> actors)
    : terminal_(terminal),
      holds_(actors.size()),
      newest_(actors.size()),
      mailboxes_(actors.size()) {
  assert(actors.size() <= max_actors);
  std::string header = fmt::format("{:>{}}  ", "µs", time_columns - 2);
  for (std::string& name : actors) {
    header += fmt::format("{:<{}}", name, actor_columns);
    actors_.push_back({.name = std::move(name), .shown = State::idle, .thread = {}});
  }
  header.erase(header.find_last_not_of(' ') + 1);
  fmt::print("\n{}\n{}\n{}\n", terminal_.paint(Style::bold, title), wrap(story, 78, "  "),
             terminal_.paint(Style::dim, header));
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    actors_[i].thread = std::jthread{[this, i](const std::stop_token& stop) { run(i, stop); }};
  }
}

DemoScenario::~DemoScenario() {
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    if (actors_[i].shown != State::idle) leaves(i);
  }
}

// ---- On the actors' threads ----

void DemoScenario::run(std::size_t actor, const std::stop_token& stop) {
  for (;;) {
    std::function<void()> cue;
    {
      std::unique_lock lock{mutex_};
      Mailbox& mailbox = mailboxes_[actor];
      mailbox.busy = false;
      if (!cue_came_.wait(lock, stop, [&mailbox] { return !mailbox.cues.empty(); })) return;
      mailbox.busy = true;
      cue = std::move(mailbox.cues.front());
      mailbox.cues.pop_front();
    }
    cue();
  }
}

void DemoScenario::note(Event event) {
  const std::scoped_lock lock{mutex_};
  mailboxes_[event.actor].asking.reset();
  events_.push_back(std::move(event));
}

void DemoScenario::ask(std::size_t actor, const Claim& claim) {
  std::vector<Hold>& holds = holds_[actor];
  {
    const std::scoped_lock lock{mutex_};
    mailboxes_[actor].asking = {.at = Clock::now(),
                                .actor = actor,
                                .state = State::waiting,
                                .word = claim.text(),
                                .note = {}};
  }
  try {
    Hold hold = space_.as(actors_[actor].name).lock(claim);
    const Clock::time_point now = Clock::now();
    {
      const std::scoped_lock lock{mutex_};
      newest_[actor] = hold.token();
    }
    holds.push_back(std::move(hold));
    note({.at = now, .actor = actor, .state = State::holding, .word = claim.text(), .note = {}});
  } catch (const Deadlock& error) {
    note({.at = Clock::now(),
          .actor = actor,
          .state = holds.empty() ? State::idle : State::holding,
          .word = "refused",
          .note = error.what()});
  }
}

// ---- On the thread that gives the cues ----

void DemoScenario::tell(std::size_t actor, std::function<void()> cue) {
  {
    const std::scoped_lock lock{mutex_};
    mailboxes_[actor].cues.push_back(std::move(cue));
  }
  cue_came_.notify_all();
  print_when_idle();
}

void DemoScenario::asks(std::size_t actor, Claim claim) {
  tell(actor, [this, actor, claim = std::move(claim)] { ask(actor, claim); });
}

void DemoScenario::leaves(std::size_t actor) {
  tell(actor, [this, actor] {
    note(
        {.at = Clock::now(), .actor = actor, .state = State::idle, .word = "released", .note = {}});
    holds_[actor].clear();
  });
}

void DemoScenario::is_evicted(std::size_t actor) {
  Token token;
  {
    const std::scoped_lock lock{mutex_};
    token = newest_[actor];
  }
  // lost() fires before the next grant.
  note({.at = Clock::now(), .actor = actor, .state = State::idle, .word = "evicted", .note = {}});
  space_.evict(token);
  print_when_idle();
}

bool DemoScenario::waits(std::string_view owner) const {
  return std::ranges::any_of(space_.inspect(), [&](const TicketInfo& info) {
    return !info.granted && info.ticket.owner == Owner{owner};
  });
}

void DemoScenario::print_when_idle() {
  for (std::size_t i = 0; i < actors_.size();) {
    const auto at_rest = [&] {
      const std::scoped_lock lock{mutex_};
      return !mailboxes_[i].busy && mailboxes_[i].cues.empty();
    };
    if (at_rest() || waits(actors_[i].name)) {
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  std::vector<Event> events;
  {
    const std::scoped_lock lock{mutex_};
    events = std::exchange(events_, {});
    for (Mailbox& mailbox : mailboxes_) {
      if (mailbox.asking) events.push_back(*mailbox.asking);
      mailbox.asking.reset();
    }
  }
  std::ranges::sort(events, {}, &Event::at);
  for (const Event& event : events) print(event);
  std::fflush(stdout);
  std::this_thread::sleep_for(beat);
}

DemoScenario::Looks DemoScenario::looks(State state) {
  switch (state) {
    case State::holding: return {.bar = "┃", .style = Style::green};
    case State::waiting: return {.bar = "┊", .style = Style::yellow};
    case State::idle: break;
  }
  return {.bar = " ", .style = Style::dim};
}

void DemoScenario::print(const Event& event) {
  using std::chrono::microseconds;
  const auto elapsed = std::chrono::duration_cast<microseconds>(event.at - start_);
  std::string row =
      terminal_.paint(Style::dim, fmt::format("{:>{}}", elapsed.count(), time_columns - 2));
  row += "  ";
  std::size_t gap = 0;  // Blanks to print before the next visible text.
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const bool here = i == event.actor;
    if (here) actors_[i].shown = event.state;
    const State state = actors_[i].shown;
    const auto [bar, style] = looks(state);
    const std::string word = here ? event.word : std::string{};
    if (state == State::idle && !here) {
      gap += actor_columns;
      continue;
    }
    row.append(gap, ' ');
    row += terminal_.paint(style, word.empty() ? bar : fmt::format("{} {}", bar, word));
    gap = actor_columns - 1 - (word.empty() ? 0 : word.size() + 1);
  }
  fmt::print("{}\n", row);
  if (!event.note.empty()) {
    fmt::print("{}\n", terminal_.paint(Style::red, wrap(event.note, 78, "          ")));
  }
}

}  // namespace tenure::cli

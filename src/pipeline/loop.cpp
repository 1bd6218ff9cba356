#include "pipeline/loop.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "pipeline/ends.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::pipeline {

Loop::Loop(Plan& plan, Runner& runner, std::span<const Index> roots, const Options& options)
    : plan_(plan),
      runner_(runner),
      random_(options.seed),
      unfinished_(plan.size()),
      concurrency_(options.concurrency),
      keep_going_(options.keep_going) {
  for (const Index task : roots) make_ready(task);
}

Loop::Own& Loop::own(Index task) {
  if (task >= own_.size()) own_.resize(plan_.size());
  return own_[task];
}

void Loop::set_terms(Index task, const Terms& terms) {
  Own& of = own(task);
  of.terms = terms;
  of.backoff = base::Backoff{terms.retry.base, terms.retry.cap};
}

void Loop::set_done(Index task) {
  if (plan_.begin(task)) end(task, State::done);
}

void Loop::make_ready(Index task) {
  ready_.push_back(task);
  std::ranges::push_heap(ready_, [&](Index a, Index b) { return plan_.goes_before(b, a); });
}

void Loop::run() {
  while (unfinished_ != 0) {
    start_ready();
    if (unfinished_ == 0) break;
    const std::optional<Runner::Report> report = runner_.wait(timers_.next());
    if (report) on_report(*report);
    fire_timers();
  }
}

void Loop::start_ready() {
  const auto later = [&](Index a, Index b) { return plan_.goes_before(b, a); };
  while (!paused_ && !cancelling_ && running_ < concurrency_ && !ready_.empty()) {
    std::ranges::pop_heap(ready_, later);
    const Index task = ready_.back();
    ready_.pop_back();
    // One that has ended stays in the heap until its turn.
    if (plan_.word(task).state() >= State::running) continue;
    if (!own(task).claimed) {
      if (!plan_.claim(task)) continue;
      if (!runner_.claim(task)) continue;
      own(task).claimed = true;
    }
    if (!plan_.begin(task)) continue;
    ++running_;
    const std::uint16_t attempt = plan_.word(task).attempt();
    if (const auto& timeout = own(task).terms.timeout) {
      timers_.add({.at = detail::saturating_add(runner_.now(), *timeout),
                   .task = task,
                   .attempt = attempt,
                   .kind = Due::Kind::timeout});
    }
    runner_.start(task, attempt);
  }
}

void Loop::on_report(const Runner::Report& report) {
  const Index task = report.task;
  if (report.kind == Runner::Report::Kind::claimed) {
    // Too late: it ended meanwhile, and unclaim() was called.
    if (plan_.word(task).state() != State::claiming) return;
    own(task).claimed = true;
    make_ready(task);
    return;
  }
  if (plan_.word(task).state() != State::running) {
    // Its claims can't be granted: that counts as an attempt.
    if (report.kind != Runner::Report::Kind::failed || !plan_.begin(task)) return;
    ++running_;
  }
  own(task).claimed = false;
  --running_;
  if (report.kind == Runner::Report::Kind::skipped) {
    // What has nothing to do keeps nobody waiting.
    plan_.flag(task, plan_.word(task).attempt(), Flag::release);
    end(task, State::skipped);
  } else if (report.kind == Runner::Report::Kind::failed || plan_.word(task).has(Flag::timed_out)) {
    on_failure(task);
  } else {
    end(task, State::done);
  }
}

void Loop::on_failure(Index task) {
  const Plan::Word word = plan_.word(task);
  Own& of = own(task);
  if (stopping_) {
    end(task, State::cancelled);
    return;
  }
  if (!cancelling_ && word.attempt() < of.terms.retry.max) {
    const std::chrono::nanoseconds delay = of.backoff.next(random_);
    if (plan_.delay(task)) {
      timers_.add({.at = detail::saturating_add(runner_.now(), delay),
                   .task = task,
                   .attempt = static_cast<std::uint16_t>(word.attempt() + 1),
                   .kind = Due::Kind::retry});
      runner_.delayed(task, delay);
      return;
    }
  }
  end(task, State::failed);
  if (!keep_going_ && !cancelling_) cancel(Running::finish);
}

void Loop::tell(Index task, State state) {
  --unfinished_;
  runner_.ended(task, end_of(state));
}

// Of a task that runs.
void Loop::end(Index task, State state) {
  const Plan::Word ended = plan_.finish(task, state);
  tell(task, ended.state());
  after_end(task, ended);
}

void Loop::after_end(Index task, Plan::Word ended) {
  const auto spread = [&](State state) {
    plan_.spread(task, ended, state, task, [&](Index dependent) {
      drop_claim(dependent);
      tell(dependent, state);
    });
  };
  if (ended.state() == State::failed) {
    spread(State::blocked);
  } else if (ended.state() == State::cancelled) {
    spread(State::cancelled);
  } else if (ended.state() == State::skipped && !ended.has(Flag::release)) {
    spread(State::skipped);
  } else {
    plan_.release(task, ended, [&](Index next) { make_ready(next); });
  }
}

void Loop::drop_claim(Index task) {
  own(task).claimed = false;
  runner_.unclaim(task);
}

void Loop::add(Index task, std::span<const Index> needs) {
  ++unfinished_;
  std::optional<Plan::End> end = plan_.link(task, needs);
  if (!end && cancelling_) end = Plan::End{.state = State::cancelled, .cause = 0};
  if (end) {
    if (plan_.end_unstarted(task, end->state, end->cause)) tell(task, end->state);
  } else if (plan_.open(task)) {
    make_ready(task);
  }
}

bool Loop::remove(Index task, Dependents dependents) {
  const State before = plan_.word(task).state();
  const std::optional<Plan::Word> word = plan_.remove(task, dependents == Dependents::release);
  if (!word) return false;
  if (before == State::running) {
    runner_.stop(task, StopReason::remove);
    return true;
  }
  drop_claim(task);
  tell(task, State::skipped);
  after_end(task, *word);
  return true;
}

void Loop::cancel(Running running) {
  cancelling_ = true;
  stopping_ = stopping_ || running == Running::stop;
  for (Index task = 0; task < plan_.size(); ++task) {
    if (plan_.end_unstarted(task, State::cancelled)) {
      drop_claim(task);
      tell(task, State::cancelled);
    } else if (running == Running::stop && plan_.word(task).state() == State::running) {
      runner_.stop(task, StopReason::cancel);
    }
  }
}

void Loop::fire_timers() {
  const std::chrono::nanoseconds now = runner_.now();
  while (const std::optional<Due> due = timers_.take(now)) {
    if (due->kind == Due::Kind::timeout) {
      if (plan_.flag(due->task, due->attempt, Flag::timed_out)) {
        runner_.stop(due->task, StopReason::timeout);
      }
    } else if (plan_.word(due->task).state() == State::delayed) {
      make_ready(due->task);
    }
  }
}

}  // namespace tenure::pipeline

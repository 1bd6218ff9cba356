#include "git/runner.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "git/words.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

// The repository of the worktree, and a remote on this machine, look this often, on average,
// whether they should clean up: the look is a process, and cleaning up is due after thousands of
// objects.
constexpr std::uint64_t pushes_per_maintenance = 64;

// A short name for what a slot belongs to.
std::string key_of(const std::string& text) {
  constexpr std::size_t length = 16;
  git_oid id{};
  check(git_odb_hash(&id, text.data(), text.size(), GIT_OBJECT_BLOB), "cannot hash a name");
  return text_of(id).substr(0, length);
}

bool same(const git_oid& a, const git_oid& b) { return git_oid_equal(&a, &b) != 0; }

std::optional<fs::path> common_directory_of(const fs::path& repository) {
  if (repository.empty()) return std::nullopt;
  const auto opened = make<Repo>("cannot open the repository '" + repository.string() + "'",
                                 git_repository_open_ext, repository.c_str(),
                                 GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr);
  return fs::canonical(git_repository_commondir(opened.get()));
}

Destination checked(Destination destination) {
  if (destination.remote.empty() || destination.remote.starts_with('-') ||
      destination.remote.contains('\0')) {
    throw BadRequest("'" + destination.remote + "' is not a remote: give a URL or a path");
  }
  check_branch_name(destination.branch);
  if (!destination.working_copy.empty()) {
    destination.working_copy =
        std::filesystem::absolute(destination.working_copy).lexically_normal();
  }
  return destination;
}

Options checked(Options options) {
  if (options.max_attempts == 0) throw BadRequest("max_attempts must be greater than zero");
  if (options.base.count() < 0 || options.cap.count() < 0) {
    throw BadRequest("the delays before a retry must not be negative");
  }
  if (options.author.name.empty() != options.author.email.empty()) {
    throw BadRequest("an author needs both a name and an email address");
  }
  return options;
}

}  // namespace

Path lock_path_of(const Destination& destination) {
  const Destination good = checked(destination);
  return Path::of("tenure.git", canonical_remote(good.remote), good.branch);
}

TransactionRunner::TransactionRunner(Destination destination, Options options,
                                     process::Guardian guardian, int session)
    : destination_(checked(std::move(destination))),
      options_(checked(std::move(options))),
      remote_(destination_.remote, options_.push_remote, destination_.branch),
      session_(session),
      program_(std::move(guardian), options_.git_timeout),
      backoff_(options_.base, options_.cap) {}

Outcome TransactionRunner::transaction(const Hold& hold, const Transform& transform,
                                       const std::stop_token& stop) {
  Call call{.hold = hold, .stop = stop, .message = options_.message};
  return run(call, [&](Round& round) { return transformed(round, transform); });
}

Outcome TransactionRunner::checkpoint(const Hold& hold, const std::string& message,
                                      const std::stop_token& stop) {
  if (destination_.working_copy.empty()) {
    throw BadRequest("checkpoint() needs a working copy: name one when the repository is opened");
  }
  Call call{.hold = hold, .stop = stop, .message = message};
  return run(call, [this](Round& round) {
    round.had = round.copy->snapshot(program_, settings_, round.call.stop);
    const git_oid tree = round.copy->merge(round.base, round.had);
    Slot::set_seen(round.worktree.repository(), round.base);
    round.worktree.load(tree);
    return tree;
  });
}

std::string TransactionRunner::preview(const Hold& hold, const Transform& transform,
                                       const std::stop_token& stop) {
  Call call{.hold = hold, .stop = stop, .message = options_.message, .attempt = 1};
  const Slot slot = take_slot(call);
  Round round = new_round(call, slot);
  begin(round);
  const git_oid tree = transformed(round, transform);
  return round.worktree.patch(round.base, tree);
}

Slot TransactionRunner::take_slot(const Call& call) {
  clone_if_missing(call.stop);
  const fs::path local =
      options_.local_repository.empty() ? destination_.working_copy : options_.local_repository;
  SlotPlan plan{.directory = options_.directory.empty() ? default_slot_directory()
                                                        : fs::absolute(options_.directory),
                .key = {},
                .local_repository = common_directory_of(local),
                .objects = remote_.objects()};
  plan.key = key_of(canonical_remote(remote_.remote()) + '\n' + remote_.branch() + '\n' +
                    plan.local_repository.value_or("").string());
  Slot slot = Slot::take(plan);
  shared_ = {slot.descriptor()};
  if (session_ >= 0) shared_.push_back(session_);
  program_.keep_open(shared_);
  if (!has_settings_) settings_ = read_settings(program_, slot.tree(), call.stop);
  has_settings_ = true;
  return slot;
}

void TransactionRunner::clone_if_missing(const std::stop_token& stop) {
  const fs::path& copy = destination_.working_copy;
  std::error_code error;
  if (copy.empty() || (fs::exists(copy, error) && !fs::is_empty(copy, error))) return;
  program_.keep_open({});
  program_.expect({.arguments = {"clone", "-q", "--single-branch", "--branch", destination_.branch,
                                 "--", remote_.remote(), copy.string()}},
                  stop);
}

TransactionRunner::Round TransactionRunner::new_round(Call& call, const Slot& slot) {
  return {.call = call,
          .worktree = Worktree{slot, program_, settings_, call.stop},
          .copy = {},
          .base = {},
          .had = {},
          .commit = {}};
}

Outcome TransactionRunner::run(Call& call, const Change& change) {
  const Slot slot = take_slot(call);
  backoff_.reset();
  for (;;) {
    ++call.attempt;
    try {
      if (std::optional<Outcome> done = attempt(call, slot, change)) return *std::move(done);
    } catch (const GitError& error) {
      if (error.attempts() != 0) throw;
      throw GitError(error.problem(), error.what(), call.attempt);
    }
    if (call.attempt >= options_.max_attempts) give_up(call);
    pause(call);
  }
}

// What must be so before the transform is called.
void TransactionRunner::begin(Round& round) {
  const Worktree& worktree = round.worktree;
  round.base = remote_.fetch(worktree, program_, round.call.stop);
  const std::optional<git_oid> seen = Slot::seen(worktree.repository());
  if (seen && !options_.accept_rewritten_history && !worktree.is_ancestor(*seen, round.base)) {
    throw GitError(Problem::history_rewritten,
                   remote_.text() + " was rewritten: it is at " + text_of(round.base) +
                       " now, which does not contain " + text_of(*seen) +
                       ". That commit is still in '" + worktree.slot().tree().string() +
                       "': compare the two, then accept the new history "
                       "(--accept-rewrite, Options::accept_rewritten_history)");
  }
  if (destination_.working_copy.empty()) return;
  if (worktree.uses_filters(round.base)) {
    throw GitError(Problem::working_copy,
                   "working copy '" + destination_.working_copy.string() +
                       "' cannot follow, because its files go through a filter such as git-lfs: " +
                       "open the repository without a working copy");
  }
  round.copy.emplace(destination_.working_copy, destination_.branch);
  await_locks(*round.copy);
  round.copy->finish_follow();
  round.copy->check_behind(worktree, round.base);
  round.had = round.copy->head_tree();
}

// A lock file that is young may belong to a git that runs, such as the `git status` of an editor.
void TransactionRunner::await_locks(const WorkingCopy& copy) const {
  constexpr std::chrono::milliseconds step{50};
  constexpr int steps = 20;
  for (int i = 0; i < steps && copy.has_young_lock(); ++i) {
    if (options_.sleep) {
      options_.sleep(step);
    } else {
      std::this_thread::sleep_for(step);
    }
  }
  copy.remove_own_locks();
  copy.check_locks();
}

git_oid TransactionRunner::transformed(Round& round, const Transform& transform) {
  round.worktree.reset_to(round.base);
  Transaction transaction;
  transaction.directory_ = round.worktree.slot().tree();
  transaction.head_ = text_of(round.base);
  transaction.token_ = round.call.hold.token();
  transaction.attempt_ = round.call.attempt;
  transaction.message_ = options_.message;
  transform(transaction);
  round.call.message = transaction.message_;
  round.worktree.slot().restore();
  // A transform that used git itself may have moved HEAD; its files are what counts.
  Slot::set_seen(round.worktree.repository(), round.base);
  return round.worktree.stage();
}

std::optional<Outcome> TransactionRunner::attempt(Call& call, const Slot& slot,
                                                  const Change& change) {
  Round round = new_round(call, slot);
  begin(round);
  const git_oid tree = change(round);
  const Tree before = tree_of(round.worktree.repository(), round.base);
  if (same(tree, *git_tree_id(before.get()))) {
    round.commit = round.base;
    if (round.copy) round.copy->rehearse(round.commit, round.had);
    return finish(round, false);
  }
  std::optional<Identity> author;
  if (!options_.author.name.empty()) author = options_.author;
  round.commit = round.worktree.commit({.tree = tree,
                                        .parent = round.base,
                                        .message = with_token(call.message, call.hold.token()),
                                        .author = author});
  if (round.copy) round.copy->rehearse(round.commit, round.had);
  return push(round);
}

std::optional<Outcome> TransactionRunner::push(Round& round) {
  const Call& call = round.call;
  if (call.stop.stop_requested()) throw GitError(Problem::stopped, "the transaction was stopped");
  if (call.hold.lost().stop_requested()) {
    throw GitError(Problem::lock_lost,
                   "the lock of " + remote_.text() + " was lost: nothing was pushed");
  }
  maintains_ = random_() % pushes_per_maintenance == 0;
  const RemoteBranch::Push pushed =
      remote_.push(round.worktree, program_, round.base, round.commit, maintains_, call.stop);
  met_lock_file_ = pushed.verdict.result == PushResult::locked;
  switch (pushed.verdict.result) {
    case PushResult::pushed: return finish(round, true);
    case PushResult::moved: return std::nullopt;
    case PushResult::locked:
      if (const std::optional<std::string> lock = remote_.stale_lock()) {
        throw GitError(Problem::locked, "a lock file at the remote stops every push to " +
                                            remote_.text() + ": " + *lock +
                                            ": if no git runs there, remove that file");
      }
      return std::nullopt;
    case PushResult::unknown:
      if (was_pushed(round)) return finish(round, true);
      break;
    case PushResult::refused: break;
  }
  throw GitError(pushed.verdict.problem, "cannot push to " + remote_.text() + ": " + pushed.words);
}

// After a push without an answer.
bool TransactionRunner::was_pushed(Round& round) {
  try {
    const git_oid head = remote_.fetch(round.worktree, program_, round.call.stop);
    return round.worktree.is_ancestor(round.commit, head);
  } catch (const GitError& error) {
    throw GitError(Problem::unknown_outcome,
                   "the push to " + remote_.text() + " had no answer, and the branch cannot be " +
                       "read: commit " + text_of(round.commit) +
                       " may be in it or not: look before you try again: " + error.what());
  }
}

Outcome TransactionRunner::finish(Round& round, bool committed) {
  note_head(round, committed);
  Outcome out{.commit = committed ? text_of(round.commit) : "",
              .head = text_of(round.commit),
              .attempts = round.call.attempt,
              .token = round.call.hold.token(),
              .working_copy_note = {}};
  if (!round.copy) return out;
  try {
    round.copy->follow(round.commit, round.had);
  } catch (const GitError& error) {
    // The commit is at the remote: that is a success, whatever becomes of the working copy.
    out.working_copy_note = error.what();
  }
  return out;
}

// The commit is at the remote: what fails from here on is no reason to report a failure.
void TransactionRunner::note_head(Round& round, bool committed) {
  try {
    Slot::set_seen(round.worktree.repository(), round.commit);
    if (!committed || !maintains_) return;
    (void)program_.run({.arguments = {"-c", "gc.autoDetach=false", "gc", "--auto", "-q"},
                        .directory = round.worktree.slot().tree()},
                       round.call.stop);
  } catch (const GitError&) {  // The next transaction finds the head and cleans up.
    return;
  }
}

void TransactionRunner::give_up(const Call& call) const {
  const std::string times = std::to_string(call.attempt) + " attempts";
  if (met_lock_file_) {
    throw GitError(Problem::locked,
                   "gave up after " + times + ": the remote's lock of " + remote_.text() +
                       " was taken every time: retry later, or remove a stale lock file there",
                   call.attempt);
  }
  throw GitError(Problem::branch_moved,
                 "gave up after " + times + ": other writers pushed to " + remote_.text() +
                     " first every time: retry later, or let all writers use one space",
                 call.attempt);
}

void TransactionRunner::pause(const Call& call) {
  std::chrono::nanoseconds time{};
  if (options_.random) {
    time = std::chrono::nanoseconds{static_cast<std::int64_t>(
        options_.random() * static_cast<double>(backoff_.limit().count()))};
    (void)backoff_.next(random_);
  } else {
    time = backoff_.next(random_);
  }
  if (options_.sleep) {
    options_.sleep(time);
    return;
  }
  std::mutex mutex;
  std::condition_variable_any nobody;
  std::unique_lock lock{mutex};
  nobody.wait_for(lock, call.stop, time, [] { return false; });
  if (call.stop.stop_requested())
    throw GitError(Problem::stopped, "the transaction was stopped", call.attempt);
}

}  // namespace tenure::git

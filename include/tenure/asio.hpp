// asio.hpp: async_lock with any completion token of Boost.Asio.
//
//   space.async_lock(book(3), [](std::exception_ptr error, tenure::Hold hold) { ... });
//   tenure::Hold hold = space.async_lock(book(3), asio::use_future).get();
//   tenure::Hold hold = co_await space.async_lock(book(3));   // in an asio::awaitable
//
// The signature is void(std::exception_ptr, Hold). What lock() throws arrives in the exception_ptr,
// never as an exception of the initiating call. The handler runs on its associated executor, never
// inside the initiating call; until then the executor counts the operation as outstanding work.
// Its memory comes from the handler's associated allocator and is given back before the handler
// runs. (The allocator may be used on the thread that gives the lock back.) The initiating call
// does not wait for a server.
//
//   while it waits                                        | it completes with
//   ------------------------------------------------------+----------------------------------------
//   its turn comes                                        | the hold
//   its cancellation slot is told terminal, partial or    | system_error(operation_aborted), unless
//   total                                                 | its turn came first: then the hold
//   the Space is destroyed                                | Closed
//   the ticket is evicted                                 | Evicted
//   the store gives the session up                        | SessionLost
//   the executor's context is destroyed                   | nothing: the handler is destroyed, and
//                                                         | the request leaves the queue before
//
// Thread safety: as Asio has it. The cancellation slot belongs to the handler's executor, so a
// signal must be emitted there; the lock may be given back on any thread.
#pragma once

#include <atomic>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/version.hpp>
#include <boost/system/system_error.hpp>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/await.hpp"
#include "tenure/claim.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"

namespace tenure::detail {

namespace asio = boost::asio;

using LockSignature = void(std::exception_ptr, Hold);

// The claims of a Request, for longer than the expression that it was made in.
class OwnedClaims {
 public:
  explicit OwnedClaims(std::span<const Claim> claims) {
    if (claims.size() == 1) {
      one_ = claims.front();
    } else {
      many_.assign(claims.begin(), claims.end());
    }
  }
  [[nodiscard]] std::span<const Claim> get() const noexcept {
    return one_.has_value() ? std::span{&*one_, 1} : std::span{many_};
  }

 private:
  std::optional<Claim> one_;  // The usual number of claims needs no allocation.
  std::vector<Claim> many_;
};

// An operation that waits, as its execution context knows it.
class AsioWait {
 public:
  AsioWait() = default;
  AsioWait(const AsioWait&) = delete;
  AsioWait& operator=(const AsioWait&) = delete;

  virtual bool withdraw() noexcept = 0;  // False: it has ended, or is about to.
  virtual void discard() noexcept = 0;   // Destroys it and its handler.

 protected:
  ~AsioWait() = default;

 private:
  friend class AsioWaits;
  AsioWait* prev_ = nullptr;
  AsioWait* next_ = nullptr;
};

// The operations of one execution context that wait. Its shutdown() is the first step of the
// context's destructor, when no thread runs the context any more but others may still give locks
// back. An operation passes through
//
//   enter()    before it is queued in the space
//   leave()    when its wait has ended; false: the context is going, and shutdown() discards it
//   posted()   when the executor has it
//
// so shutdown(), which waits for all that have entered and not left, returns with nobody behind it
// who would still post to the context.
class AsioWaits final : public asio::execution_context::service {
 public:
  using key_type = AsioWaits;
  inline static asio::execution_context::id id;

  explicit AsioWaits(asio::execution_context& context) : service(context) {}

  // False: the context is being destroyed.
  [[nodiscard]] bool enter(AsioWait& wait) {
    const std::scoped_lock guard{mutex_};
    if (shut_) return false;
    wait.next_ = first_;
    if (first_ != nullptr) first_->prev_ = &wait;
    first_ = &wait;
    ++busy_;
    return true;
  }
  [[nodiscard]] bool leave(AsioWait& wait) noexcept {
    const std::scoped_lock guard{mutex_};
    if (shut_) {
      ended();
      return false;
    }
    (wait.prev_ != nullptr ? wait.prev_->next_ : first_) = wait.next_;
    if (wait.next_ != nullptr) wait.next_->prev_ = wait.prev_;
    return true;
  }
  void posted() noexcept {
    const std::scoped_lock guard{mutex_};
    ended();
  }

 private:
  // Under the lock: shutdown() may go on, and destroy this, as soon as that is given back.
  void ended() noexcept {
    if (--busy_ == 0) idle_.notify_all();
  }

  void shutdown() override {
    std::unique_lock guard{mutex_};
    shut_ = true;  // From here on nobody changes the list.
    guard.unlock();
    // Without the lock: a withdrawal may grant the next one in this same list.
    std::size_t withdrawn = 0;
    for (AsioWait* wait = first_; wait != nullptr; wait = wait->next_) {
      withdrawn += wait->withdraw() ? 1U : 0U;
    }
    guard.lock();
    busy_ -= withdrawn;
    idle_.wait(guard, [this] { return busy_ == 0; });
    guard.unlock();
    for (AsioWait* wait = std::exchange(first_, nullptr); wait != nullptr;) {
      std::exchange(wait, wait->next_)->discard();
    }
  }

  std::mutex mutex_;  // Guards what follows, until shut_ is set.
  std::condition_variable idle_;
  AsioWait* first_ = nullptr;
  std::size_t busy_ = 0;  // Have entered, and are neither posted nor left to shutdown().
  bool shut_ = false;
};

// Null for an executor that knows no context: whoever has one keeps it alive.
template <class Executor>
[[nodiscard]] AsioWaits* waits_of(const Executor& executor) {
  const auto of = [](asio::execution_context& context) {
    return &asio::use_service<AsioWaits>(context);
  };
  if constexpr (requires { of(asio::query(executor, asio::execution::context)); }) {
    return of(asio::query(executor, asio::execution::context));
  } else if constexpr (requires { of(executor.context()); }) {
    return of(executor.context());
  } else {
    return nullptr;
  }
}

// Asio's own recycling, as for its own operations, where the handler does not say.
template <class Handler>
using HandlerAllocator = asio::associated_allocator_t<Handler, asio::recycling_allocator<void>>;
template <class Handler>
[[nodiscard]] HandlerAllocator<Handler> allocator_of(const Handler& handler) noexcept {
  return asio::get_associated_allocator(handler, asio::recycling_allocator<void>{});
}

// A request that was granted at once, on its way to the handler.
template <class Handler>
struct GrantedAtOnce {
  using allocator_type = HandlerAllocator<Handler>;
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_of(handler); }
  void operator()() { std::move(handler)(std::exception_ptr{}, std::move(hold)); }

  Handler handler;
  Hold hold;
};

// A request that may have to wait.
//
//   finished_ | who may reach it                  | ends by
//   ----------+-----------------------------------+----------------------------------------------
//   false     | the space, which calls done();    | one of done(), a successful cancel() and a
//             | the cancellation slot; shutdown() | request() that is granted or throws: finish()
//   true      | the posted Completion; shutdown() | running or destroying it: then it is gone
//
// Why neither cancel() nor the slot can reach an operation that is destroyed, or a ticket of
// another operation: only complete() destroys the operation and makes its grant a Hold. It runs on
// the handler's executor and clears the slot first. Signals are emitted on the same executor, so
// none is in progress then, and none follows. shutdown() withdraws when no thread runs the
// executor's context, so complete() can't run either. Until complete() the ticket belongs to this
// operation, or is gone because the space closed or evicted it; cancel() returns false for both.
// The backend lives that long because the operation shares its ownership.
template <class Handler>
class LockOperation final : public Waiter, public AsioWait {
 public:
  LockOperation(const LockOperation&) = delete;
  LockOperation& operator=(const LockOperation&) = delete;

  // All by value: once it is queued another thread may complete it, and with that end the coroutine
  // that the arguments of the initiating call were in.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static void start(Handler handler, std::shared_ptr<Backend> backend, OwnerRef owner,
                    const OwnedClaims& claims) {
    LockOperation& self = make(handler, backend);
    if (!self.prepare()) return;
    try {
      if (!backend->request({.claims = claims.get(), .owner = owner}, self)) return;
      self.finish(End::granted);
    } catch (...) {
      self.error = std::current_exception();
      self.finish(End::failed);
    }
  }

  bool withdraw() noexcept override {
    return !finished_.load(std::memory_order_acquire) && detail::cancel(backend_.get(), *this);
  }
  void discard() noexcept override { (void)take(); }

 private:
  using Executor = asio::associated_executor_t<Handler>;
  using Allocator = typename std::allocator_traits<
      HandlerAllocator<Handler>>::template rebind_alloc<LockOperation>;
  using Memory = std::allocator_traits<Allocator>;
  enum class End : std::uint8_t { none, granted, closed, evicted, lost, cancelled, failed };

  // What is left when the operation's memory is given back. The handler goes before the hold.
  struct Result {
    asio::executor_work_guard<Executor> work;
    std::exception_ptr error;
    Hold hold;
    Handler handler;
  };

  struct OnCancel {
    LockOperation* self;
    void operator()(asio::cancellation_type_t type) const {
      using enum asio::cancellation_type;
      if ((type & (terminal | partial | total)) != none) self->cancel();
    }
  };

  // In the executor's queue.
  class Completion {
   public:
    using allocator_type = HandlerAllocator<Handler>;

    explicit Completion(LockOperation& operation) noexcept : operation_(&operation) {}
    Completion(Completion&& other) noexcept
        : operation_(std::exchange(other.operation_, nullptr)) {}
    Completion& operator=(Completion&&) = delete;
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;
    ~Completion() {
      if (operation_ != nullptr) operation_->discard();
    }
    [[nodiscard]] allocator_type get_allocator() const noexcept {
      return allocator_of(operation_->handler_);
    }
    void operator()() { std::exchange(operation_, nullptr)->complete(); }

   private:
    LockOperation* operation_;
  };

  LockOperation(Handler& handler, const std::shared_ptr<Backend>& backend)
      : Waiter(&on_done),
        backend_(backend),
        work_(asio::get_associated_executor(handler)),
        waits_(waits_of(work_.get_executor())),
        handler_(std::move(handler)) {
    caller = Caller::goes_on;
  }
  ~LockOperation() = default;

  static LockOperation& make(Handler& handler, const std::shared_ptr<Backend>& backend) {
    Allocator allocator{allocator_of(handler)};
    LockOperation* const memory = Memory::allocate(allocator, 1);
    try {
      return *new (memory) LockOperation{handler, backend};
    } catch (...) {
      Memory::deallocate(allocator, memory, 1);
      throw;
    }
  }

  [[nodiscard]] bool prepare() {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    try {
      if (slot.is_connected()) slot.template emplace<OnCancel>(this);
    } catch (...) {
      discard();
      throw;
    }
    if (waits_ == nullptr || waits_->enter(*this)) return true;
    if (slot.is_connected()) slot.clear();
    discard();
    return false;
  }

  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
    auto& self = static_cast<LockOperation&>(waiter);
    switch (outcome) {
      case WaitOutcome::granted: return self.finish(End::granted);
      case WaitOutcome::taken: std::unreachable();  // Of a try: this is none.
      case WaitOutcome::closed: return self.finish(End::closed);
      case WaitOutcome::evicted: return self.finish(End::evicted);
      case WaitOutcome::lost: return self.finish(End::lost);
      case WaitOutcome::failed: return self.finish(End::failed);
    }
  }

  void cancel() noexcept {
    const ResumeScope scope;  // Whoever is next is not resumed before this one is posted.
    if (withdraw()) finish(End::cancelled);
  }

  // No memory for the executor's queue ends the program: a grant must not be lost.
  void finish(End end) noexcept {  // NOLINT(bugprone-exception-escape)
    end_ = end;
    finished_.store(true, std::memory_order_release);
    AsioWaits* const waits = waits_;
    if (waits != nullptr && !waits->leave(*this)) return;
    asio::post(work_.get_executor(), Completion{*this});
    if (waits != nullptr) waits->posted();
  }

  void complete() {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected()) slot.clear();
    Result result = take();
    std::move(result.handler)(std::move(result.error), std::move(result.hold));
  }

  // The slot is left alone: on the way from discard() its signal may be gone already.
  Result take() {
    Allocator allocator{allocator_of(handler_)};
    Result result{.work = std::move(work_),
                  .error = why(),
                  .hold = end_ == End::granted ? HoldAccess::make(backend_.get(), grant) : Hold{},
                  .handler = std::move(handler_)};
    this->~LockOperation();
    Memory::deallocate(allocator, this, 1);
    return result;
  }

  [[nodiscard]] std::exception_ptr why() {
    switch (end_) {
      case End::none:
      case End::granted: return nullptr;
      case End::failed: return std::move(error);
      case End::closed: return as_error(WaitOutcome::closed);
      case End::evicted: return as_error(WaitOutcome::evicted);
      case End::lost: return as_error(WaitOutcome::lost);
      case End::cancelled: break;
    }
    return std::make_exception_ptr(
        boost::system::system_error{asio::error::operation_aborted, "async_lock"});
  }
  [[nodiscard]] std::exception_ptr as_error(WaitOutcome outcome) const {
    try {
      throw_outcome(*this, outcome);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  std::shared_ptr<Backend> backend_;
  asio::executor_work_guard<Executor> work_;
  AsioWaits* waits_;
  std::atomic<bool> finished_ = false;
  End end_ = End::none;
  Handler handler_;
};

struct InitiateLock {
  // The claims are moved in here, out of the reach of the coroutine that they may come from.
  template <class Handler>
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void operator()(Handler&& handler, const std::shared_ptr<Backend>& backend, const OwnerRef& owner,
                  OwnedClaims claims) const {
    using Decayed = std::decay_t<Handler>;
    const std::span<const Claim> all = claims.get();
    if (all.size() == 1) {
      const Grant grant = backend->request_free(all.front(), owner);
      if (grant.ticket != nullptr) [[likely]] {
        const auto executor = asio::get_associated_executor(handler);
        asio::post(executor,
                   GrantedAtOnce<Decayed>{.handler = std::forward<Handler>(handler),
                                          .hold = HoldAccess::make(backend.get(), grant)});
        return;
      }
    }
    LockOperation<Decayed>::start(std::forward<Handler>(handler), backend, owner, claims);
  }
};

// A token that only describes the operation (deferred) keeps copies of the arguments.
template <class CompletionToken>
auto asio_lock(const std::shared_ptr<Backend>& backend, const OwnerRef& owner,
               const Request& request, CompletionToken& token) {
  return asio::async_initiate<CompletionToken, LockSignature>(InitiateLock{}, token, backend, owner,
                                                              OwnedClaims{request.claims()});
}

using ReleaseSignature = void(std::exception_ptr, bool);

// A release that its handler is waiting for. Whoever answers first ends it: the space, which posts
// the handler, or the destructor of the execution context, after which the answer is for nobody.
template <class Handler>
class ReleaseOperation final : public AsioWait {
 public:
  using Executor = asio::associated_executor_t<Handler>;

  explicit ReleaseOperation(Handler handler)
      : work_(asio::get_associated_executor(handler)),
        waits_(waits_of(work_.get_executor())),
        handler_(std::move(handler)) {}

  static void start(const std::shared_ptr<ReleaseOperation>& self, Hold& hold) {
    self->enlist(self);
    HoldAccess::release_then(hold, [self](std::exception_ptr error, bool held) {
      self->answer(self, std::move(error), held);
    });
  }
  // The hold stays in the operation until the answer; an error brings it back to `from`.
  static void start(const std::shared_ptr<ReleaseOperation>& self, Hold hold, Hold* from,
                    TxnPart part) {
    self->enlist(self);
    self->kept_ = std::move(hold);
    self->from_ = from;
    HoldAccess::release_with_then(self->kept_, std::move(part),
                                  [self](std::exception_ptr error, bool held) {
                                    if (error == nullptr) HoldAccess::forget(self->kept_);
                                    self->answer(self, std::move(error), held);
                                  });
  }

  bool withdraw() noexcept override { return !ended_.exchange(true); }
  void discard() noexcept override {
    handler_.reset();
    work_.reset();
    listed_ = nullptr;
  }

 private:
  void enlist(const std::shared_ptr<ReleaseOperation>& self) {
    listed_ = self;
    if (waits_ != nullptr && !waits_->enter(*this)) {
      ended_ = true;
      discard();
    }
  }
  void answer(const std::shared_ptr<ReleaseOperation>& self, std::exception_ptr error, bool held) {
    if (!ended_.exchange(true)) post(self, std::move(error), held);
  }
  // No memory for the executor's queue ends the program, as in LockOperation.
  void post(const std::shared_ptr<ReleaseOperation>& self, std::exception_ptr error, bool held) {
    AsioWaits* const waits = waits_;
    if (waits != nullptr && !waits->leave(*this)) return;
    listed_ = nullptr;
    asio::post(work_.get_executor(), [self, error = std::move(error), held]() mutable {
      auto work = std::move(self->work_);
      Handler own = *std::move(self->handler_);
      self->handler_.reset();
      if (self->kept_) *self->from_ = std::move(self->kept_);
      own(std::move(error), held);
    });
    if (waits != nullptr) waits->posted();
  }

  asio::executor_work_guard<Executor> work_;
  AsioWaits* waits_;
  std::atomic<bool> ended_ = false;
  std::optional<Handler> handler_;
  Hold kept_;
  Hold* from_ = nullptr;                      // Valid when the handler runs.
  std::shared_ptr<ReleaseOperation> listed_;  // Itself, until it is posted or discarded.
};

struct InitiateRelease {
  template <class Handler>
  void operator()(Handler&& handler, Hold hold) const {
    using Operation = ReleaseOperation<std::decay_t<Handler>>;
    Operation::start(std::make_shared<Operation>(std::forward<Handler>(handler)), hold);
  }
  template <class Handler>
  void operator()(Handler&& handler, Hold hold, Hold* from, TxnPart part) const {
    using Operation = ReleaseOperation<std::decay_t<Handler>>;
    Operation::start(std::make_shared<Operation>(std::forward<Handler>(handler)), std::move(hold),
                     from, std::move(part));
  }
};

}  // namespace tenure::detail

namespace tenure {

template <class CompletionToken>
  requires(!std::convertible_to<CompletionToken, std::stop_token> &&
           !detail::is_resume_on<std::remove_cvref_t<CompletionToken>>)
// NOLINTNEXTLINE(performance-unnecessary-value-param): as the other overloads have it.
auto Locker::async_lock(Request request, CompletionToken&& token) const {
  return detail::asio_lock<CompletionToken>(backend_, owner_, request, token);
}

template <class Executor>
template <class CompletionToken>
  requires(std::is_void_v<Executor> && !std::is_pointer_v<CompletionToken>)
auto AsyncLock<Executor>::operator()(CompletionToken&& token) && {
  return detail::asio_lock<CompletionToken>(*backend_, owner_, request_, token);
}

template <class CompletionToken>
auto Hold::async_release(CompletionToken&& token) {
  return boost::asio::async_initiate<CompletionToken, detail::ReleaseSignature>(
      detail::InitiateRelease{}, token, std::move(*this));
}

template <class CompletionToken>
auto Hold::async_release(TxnPart part, CompletionToken&& token) {
  return boost::asio::async_initiate<CompletionToken, detail::ReleaseSignature>(
      detail::InitiateRelease{}, token, std::move(*this), this, std::move(part));
}

}  // namespace tenure

#if BOOST_ASIO_VERSION == 102600
// Boost 1.81 lets an awaitable co_await any operation without a token, but its code for this kind
// of signature does not compile: it tests a struct where it means the exception_ptr in it.
template <class Executor>
class boost::asio::detail::awaitable_async_op_handler<tenure::detail::LockSignature, Executor>
    : public awaitable_thread<Executor> {
 public:
  struct result_type {  // NOLINT(readability-identifier-naming): Asio's name.
    std::exception_ptr error;
    tenure::Hold hold;
  };

  awaitable_async_op_handler(awaitable_thread<Executor>* thread, result_type& result)
      : awaitable_thread<Executor>(std::move(*thread)), result_(result) {}

  void operator()(std::exception_ptr error, tenure::Hold hold) {
    result_.error = std::move(error);
    result_.hold = std::move(hold);
    this->entry_point()->top_of_stack_->attach_thread(this);
    this->entry_point()->top_of_stack_->clear_cancellation_slot();
    this->pump();
  }

  static tenure::Hold resume(result_type& result) {
    if (result.error != nullptr) std::rethrow_exception(std::exchange(result.error, nullptr));
    return std::move(result.hold);
  }

 private:
  result_type& result_;  // In the frame of the coroutine.
};
#endif

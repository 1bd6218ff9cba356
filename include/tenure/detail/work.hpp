// work.hpp: what a task of a Pipeline does: a callable of any type in 40 bytes.
//
// Three kinds of callable:
//   f()                      plain
//   f(const TaskContext&)    may look at its stop token, attempt and fencing token
//   f(TaskContext) -> Job    a coroutine; the callable lives as long as the pipeline, so a lambda
//                            may use its captures after a suspension
//
// Callables of up to 32 bytes that move without throwing are stored in place; others are allocated.
//
// Thread safety: none; one attempt at a time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "tenure/job.hpp"

namespace tenure::detail {

template <class F>
concept PlainWork = std::invocable<F&>;
template <class F>
concept JobWork = requires(F& f, const TaskContext& context) {
  { f(context) } -> std::same_as<Job>;
};
template <class F>
concept ContextWork = std::invocable<F&, const TaskContext&> && !JobWork<F>;
template <class F>
concept AnyWork = PlainWork<F> || ContextWork<F> || JobWork<F>;

class Work {
 public:
  enum class Kind : std::uint8_t { plain, context, job };

  Work() noexcept = default;
  template <class F>
    requires(AnyWork<F> && !std::same_as<F, Work>)
  explicit Work(F f) : ops_(&Holder<F>::ops) {
    Holder<F>::make(static_cast<void*>(storage_), std::move(f));
  }
  Work(Work&& other) noexcept : ops_(std::exchange(other.ops_, nullptr)) {
    if (ops_ != nullptr) ops_->move(other.storage_, storage_);
  }
  Work& operator=(Work&& other) noexcept {
    if (this != &other) {
      reset();
      ops_ = std::exchange(other.ops_, nullptr);
      if (ops_ != nullptr) ops_->move(other.storage_, storage_);
    }
    return *this;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { reset(); }

  [[nodiscard]] Kind kind() const noexcept { return ops_ == nullptr ? Kind::plain : ops_->kind; }
  // Requires: kind() is plain. An empty one does nothing.
  void operator()() {
    if (ops_ != nullptr) ops_->call(storage_, nullptr);
  }
  // Requires: kind() is plain or context.
  void operator()(const TaskContext& context) {
    if (ops_ != nullptr) ops_->call(storage_, &context);
  }
  // Requires: kind() is job. The coroutine has not begun.
  [[nodiscard]] Job start(const TaskContext& context) { return ops_->start(storage_, context); }

 private:
  static constexpr std::size_t size = 32;

  struct Ops {
    Kind kind;
    void (*call)(void* self, const TaskContext* context);
    Job (*start)(void* self, const TaskContext& context);
    void (*move)(void* from, void* to) noexcept;  // `from` is destroyed.
    void (*destroy)(void* self) noexcept;
  };

  template <class F>
  struct Holder {
    static constexpr bool in_place = sizeof(F) <= size && alignof(F) <= alignof(void*) &&
                                     std::is_nothrow_move_constructible_v<F>;
    static F& get(void* self) noexcept {
      if constexpr (in_place) {
        return *std::launder(static_cast<F*>(self));
      } else {
        return **static_cast<F**>(self);
      }
    }
    static void make(void* self, F&& f) {
      if constexpr (in_place) {
        std::construct_at(static_cast<F*>(self), std::move(f));
      } else {
        *static_cast<F**>(self) = std::make_unique<F>(std::move(f)).release();
      }
    }
    static void call(void* self, [[maybe_unused]] const TaskContext* context) {
      if constexpr (PlainWork<F>) {
        static_cast<void>(get(self)());
      } else if constexpr (ContextWork<F>) {
        static_cast<void>(get(self)(*context));
      }
    }
    static Job start(void* self, const TaskContext& context) {
      if constexpr (JobWork<F>) {
        return get(self)(context);
      } else {
        return Job{};
      }
    }
    static void move(void* from, void* to) noexcept {
      if constexpr (in_place) {
        std::construct_at(static_cast<F*>(to), std::move(get(from)));
        std::destroy_at(&get(from));
      } else {
        *static_cast<F**>(to) = *static_cast<F**>(from);
      }
    }
    static void destroy(void* self) noexcept {
      if constexpr (in_place) {
        std::destroy_at(&get(self));
      } else {
        const std::unique_ptr<F> gone{*static_cast<F**>(self)};
      }
    }
    static consteval Kind kind() noexcept {
      if (PlainWork<F>) return Kind::plain;
      return ContextWork<F> ? Kind::context : Kind::job;
    }
    static constexpr Ops ops{
        .kind = kind(), .call = &call, .start = &start, .move = &move, .destroy = &destroy};
  };

  void reset() noexcept {
    if (ops_ != nullptr) std::exchange(ops_, nullptr)->destroy(storage_);
  }

  const Ops* ops_ = nullptr;
  alignas(void*) std::byte storage_[size];  // NOLINT(modernize-avoid-c-arrays): raw memory.
};
static_assert(sizeof(Work) == 40);

}  // namespace tenure::detail

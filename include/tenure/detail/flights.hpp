// flights.hpp: calls under way whose result others share: Space::once().
//
// Thread safety: all calls.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/path.hpp"

namespace tenure::detail {

class Flights {
 public:
  // Calls f, or waits for the call with the same key that is under way, and returns its result.
  template <class F>
  std::invoke_result_t<F> once(const Path& key, F&& f) {
    using Result = std::invoke_result_t<F>;
    static_assert(!std::is_reference_v<Result>,
                  "each caller of once() gets a copy of the result: return a value");
    std::promise<Result> own;
    bool first = false;
    const std::shared_future<Result> result = join(key, own, first);
    if (!first) return result.get();
    Landing landing{*this, key};
    try {
      if constexpr (std::is_void_v<Result>) {
        std::invoke(std::forward<F>(f));
        landing.end();
        own.set_value();
      } else {
        Result value = std::invoke(std::forward<F>(f));
        landing.end();
        own.set_value(std::move(value));
      }
    } catch (...) {
      landing.end();
      own.set_exception(std::current_exception());
    }
    return result.get();
  }

 private:
  struct Flight {
    std::shared_ptr<void> result;  // A std::shared_future of `type`.
    const std::type_info* type = nullptr;
  };
  // Before the result is there: a caller who comes later makes a call of its own.
  class Landing {
   public:
    Landing(Flights& flights, const Path& key) noexcept : flights_(&flights), key_(key) {}
    void end() {
      if (flights_ == nullptr) return;
      const std::scoped_lock lock{flights_->mutex_};
      flights_->flights_.erase(key_);
      flights_ = nullptr;
    }

   private:
    Flights* flights_;
    const Path& key_;
  };

  template <class Result>
  std::shared_future<Result> join(const Path& key, std::promise<Result>& own, bool& first) {
    const std::scoped_lock lock{mutex_};
    if (const auto at = flights_.find(key); at != flights_.end()) {
      if (*at->second.type != typeid(Result)) {
        throw BadRequest("once() of '" + key.text() +
                         "' is under way with another type of result: use another key");
      }
      return *static_cast<std::shared_future<Result>*>(at->second.result.get());
    }
    std::shared_future<Result> result = own.get_future().share();
    flights_.emplace(key, Flight{.result = std::make_shared<std::shared_future<Result>>(result),
                                 .type = &typeid(Result)});
    first = true;
    return result;
  }

  std::mutex mutex_;
  std::unordered_map<Path, Flight> flights_;  // Guarded by mutex_.
};

}  // namespace tenure::detail

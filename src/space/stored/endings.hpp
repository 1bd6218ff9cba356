// endings.hpp: threads that end spaces: a store's own thread cannot, it would wait for itself.
//
// exit() waits for them before it destroys statics, so that none of our code runs meanwhile; but
// for no longer than `ending_limit` after they began, if a server does not answer.
#pragma once

#include <chrono>
#include <functional>
#include <typeinfo>

namespace tenure::stored {

// How long close(), the last Hold of a closed space and exit() wait for a server.
inline constexpr std::chrono::seconds ending_limit{5};

// The kind of the store: libraries that it uses destroy their own state at exit(), so the wait is
// registered after each of them was initialized. `limit`: exit() waits no longer than that. Throws
// std::system_error if no thread can be started; the job then never runs.
void run_ending(const std::type_info& kind, std::chrono::nanoseconds limit,
                std::function<void()> job);

}  // namespace tenure::stored

// endings.hpp: threads that end spaces. A thread of the store cannot: it would wait for itself.
//
// exit() waits for them before it destroys statics, so that no code of Tenure runs meanwhile. If a
// server does not answer, exit() waits for at most `ending_limit` after they began.
#pragma once

#include <chrono>
#include <functional>
#include <typeinfo>

namespace tenure::stored {

// How long close(), the last Hold of a closed space and exit() wait for a server.
inline constexpr std::chrono::seconds ending_limit{5};

// `kind`: the type of the store. Libraries that a store uses destroy their state at exit(), so the
// wait is registered with atexit() once per type, after its libraries were initialized. `limit`:
// exit() waits no longer than that. Throws std::system_error if no thread can be started; the job
// then never runs.
void run_ending(const std::type_info& kind, std::chrono::nanoseconds limit,
                std::function<void()> job);

}  // namespace tenure::stored

// annotations.hpp: clang's thread-safety attributes, checked with -Wthread-safety; empty for other
// compilers.
#pragma once

#if defined(__clang__)
#define TENURE_ATTRIBUTE(x) __attribute__((x))
#else
#define TENURE_ATTRIBUTE(x)
#endif

#define TENURE_CAPABILITY(name) TENURE_ATTRIBUTE(capability(name))
#define TENURE_SCOPED_CAPABILITY TENURE_ATTRIBUTE(scoped_lockable)
#define TENURE_GUARDED_BY(lock) TENURE_ATTRIBUTE(guarded_by(lock))
#define TENURE_REQUIRES(...) TENURE_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TENURE_ACQUIRE(...) TENURE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TENURE_TRY_ACQUIRE(...) TENURE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define TENURE_RELEASE(...) TENURE_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TENURE_ASSERT_HELD(...) TENURE_ATTRIBUTE(assert_capability(__VA_ARGS__))
// For a function that locks a set of locks known only at run time; it documents the order.
#define TENURE_LOCKS_A_SET TENURE_ATTRIBUTE(no_thread_safety_analysis)

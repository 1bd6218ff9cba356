# A tree is one build directory with one purpose: build/dev, build/asan, ... The presets name it in
# TENURE_TREE. Everything that differs from tree to tree is in this file.

set(TENURE_TREE release CACHE STRING "dev, release, asan, tsan, coverage or gcc (see the presets)")

# What a tree contains beside the library and the program. Both are off by default, so that
# `make run` needs neither gRPC nor a test framework. A later configuration may turn them on in the
# same tree; nothing that is built already is built again.
option(TENURE_ETCD "Build the etcd module (needs gRPC)" OFF)
option(TENURE_TESTS "Build tests, benchmarks and examples (needs everything)" OFF)
if(TENURE_TESTS)
  set(TENURE_ETCD ON)
endif()

# The kinds of program that belong to `all` of each tree. Every target exists in every tree, so a
# room may set properties without asking where it is; what is not listed here is left unbuilt.
set(tenure_kinds_dev      test bench example)
set(tenure_kinds_release  bench)
set(tenure_kinds_asan     test bench example fuzz)
set(tenure_kinds_tsan     tsan_test)  # Only tests that the thread sanitizer can follow.
set(tenure_kinds_gcc      test example)
# No examples: profiles are merged by function name, and theirs for main() would displace the app's.
set(tenure_kinds_coverage test)
if(NOT DEFINED tenure_kinds_${TENURE_TREE})
  message(FATAL_ERROR "TENURE_TREE=${TENURE_TREE} is not a tree: use one of the presets")
endif()
set(TENURE_KINDS ${tenure_kinds_${TENURE_TREE}})

# Where the dev tree finds the programs that the sanitizer trees built.
set(TENURE_ASAN_TREE "${PROJECT_SOURCE_DIR}/build/asan")
set(TENURE_TSAN_TREE "${PROJECT_SOURCE_DIR}/build/tsan")
set(TENURE_TSAN_FILE "${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
# A first report ends the program: later ones are mostly its echoes.
set(TENURE_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${TENURE_TSAN_FILE}"
  "PYTHONDONTWRITEBYTECODE=1")

# The language and the warnings, for every target alike. Directory options, not target ones: the
# objects that compile each public header alone then get them too.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety)
endif()
# Everywhere, so that all targets can share a precompiled header. Plug-ins need -fPIC.
add_compile_options(-fPIC -pthread)

# CMake's own RelWithDebInfo defines NDEBUG; here only what is measured and shipped does.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT TENURE_TREE STREQUAL release)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# The code of tests is compiled without optimisation and with line tables only, in a third of the
# time; what it tests is optimised. A test that computes a lot asks for OPTIMIZED.
set(TENURE_TEST_FLAGS -O0 -gline-tables-only)

# Sanitized code at -O1 with line tables only: it builds in half the time, with stacks as good.
if(TENURE_TREE MATCHES "^(asan|tsan)$")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -gline-tables-only -fno-omit-frame-pointer")
endif()
if(TENURE_TREE STREQUAL asan)
  # fuzzer-no-link: the whole tree carries the counters that steer the fuzzers, without their main.
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(TENURE_TREE STREQUAL tsan)
  add_compile_options(-fsanitize=thread)
  set(script "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/tsan.map")
  add_link_options(-fsanitize=thread
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${script}>")
elseif(TENURE_TREE STREQUAL gcc)
  # No debug information: this tree is for warnings and test results only. At -O0, g++ makes no
  # tail calls, and chains of coroutines overflow the stack.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2")
  # At -O1 it warns wrongly of values in Boost's headers that may not be set.
  set(TENURE_TEST_FLAGS -O1 -Wno-maybe-uninitialized)
elseif(TENURE_TREE STREQUAL coverage)
  # %4m: processes of one program merge into a pool of four files, instead of leaving one each.
  set(coverage_flags "-fprofile-instr-generate=${PROJECT_BINARY_DIR}/profiles/%4m.profraw"
    -fcoverage-mapping -fprofile-update=atomic)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")
  add_compile_options(${coverage_flags})
  add_link_options(${coverage_flags})
endif()

# In pieces, the files of a room are compiled a few dozen at a time, and tests by the dozen: from
# nothing that takes less than half the time, but after a change of one file it takes longer. So no
# two files of a room may define the same name. The checking trees are built from nothing most of
# the time; so is the dev tree in CI and by the first `make run`.
if(TENURE_TREE MATCHES "^(asan|tsan|gcc|coverage)$")
  set(tenure_pieces ON)
else()
  set(tenure_pieces OFF)
endif()
option(TENURE_PIECES "Compile the files of a room, and tests, by the dozen" ${tenure_pieces})

# The program of the dev tree is the one people run, so it has the short path.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(TENURE_TREE STREQUAL dev)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_SOURCE_DIR}/build/bin")
endif()

# Each public header must compile alone.
if(TENURE_TREE STREQUAL dev)
  set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
endif()

find_program(TENURE_CCACHE ccache)
if(TENURE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TENURE_CCACHE}")
  # Else the precompiled header differs in each clone, and ccache finds nothing that was compiled
  # with another one.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
# lld links a test program in a tenth of the time.
find_program(TENURE_LLD ld.lld-19)
if(TENURE_LLD AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_link_options(-fuse-ld=lld)
endif()

find_package(Threads REQUIRED)

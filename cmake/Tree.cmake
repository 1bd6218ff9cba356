# A tree is one build directory with one purpose: build/dev, build/asan, ... The presets name it in
# TENURE_TREE. Everything that differs from tree to tree is in this file.

set(TENURE_TREE release CACHE STRING "dev, release, asan, tsan, coverage or gcc (see the presets)")

# The kinds of program that belong to `all` of each tree. Every target exists in every tree, so a
# room may set properties without asking where it is; what is not listed here is left unbuilt.
set(tenure_kinds_dev      test concurrent_test bench example)
set(tenure_kinds_release  bench)
set(tenure_kinds_asan     test concurrent_test bench example fuzz)
set(tenure_kinds_tsan     concurrent_test)
set(tenure_kinds_gcc      test concurrent_test bench example)
# No examples: profiles are merged by function name, and theirs for main() would displace the app's.
set(tenure_kinds_coverage test concurrent_test)
if(NOT DEFINED tenure_kinds_${TENURE_TREE})
  message(FATAL_ERROR "TENURE_TREE=${TENURE_TREE} is not a tree: use one of the presets")
endif()
set(TENURE_KINDS ${tenure_kinds_${TENURE_TREE}})

# Where the dev tree finds the programs that the sanitizer trees built.
set(TENURE_ASAN_TREE "${PROJECT_SOURCE_DIR}/build/asan")
set(TENURE_TSAN_TREE "${PROJECT_SOURCE_DIR}/build/tsan")
set(TENURE_TSAN_FILE "${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
# A first report ends the program: later ones are mostly its echoes.
set(TENURE_SANITIZER_ENVIRONMENT
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${TENURE_TSAN_FILE}")

# The language and the warnings, for every target alike. Directory options, not target ones: the
# objects that compile each public header alone then get them too.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety)
endif()

# CMake's own RelWithDebInfo defines NDEBUG; here only what is measured and shipped does.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT TENURE_TREE STREQUAL release)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

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
  add_link_options(-fsanitize=thread)
elseif(TENURE_TREE STREQUAL gcc)
  # For what it warns of and how its tests end: without debug information a third faster.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2")
elseif(TENURE_TREE STREQUAL coverage)
  # %4m: processes of one program merge into a pool of four files, instead of leaving one each.
  set(coverage_flags "-fprofile-instr-generate=${PROJECT_BINARY_DIR}/profiles/%4m.profraw"
    -fcoverage-mapping -fprofile-update=atomic)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")
  add_compile_options(${coverage_flags})
  add_link_options(${coverage_flags})
endif()

# The program of the dev tree is the one people run, so it has the short path.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(TENURE_TREE STREQUAL dev)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_SOURCE_DIR}/build/bin")
endif()

# Each public header must compile alone. Two trees do it, one for each compiler.
if(TENURE_TREE MATCHES "^(dev|gcc)$")
  set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
endif()

find_program(TENURE_CCACHE ccache)
if(TENURE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TENURE_CCACHE}")
endif()

find_package(Threads REQUIRED)

# The programs that try, attack, measure and show the library. Each kind has a fixed directory in
# its tree (<tree>/tests/unit_test, <tree>/fuzz/path_fuzz, ...), so that the dev tree can run what
# the sanitizer trees built, and the tools need no list of programs.
#
# Each ctest entry beside the quick ones has a label, by which `make check` and `make gcc` leave it
# out: server, campaign, sanitizer, fuzz, bench, tidy.

if(NOT TENURE_TESTS)
  # Rooms may declare their tests; without TENURE_TESTS that does nothing.
  foreach(function IN ITEMS tenure_test tenure_unit_tests tenure_run tenure_script)
    cmake_language(EVAL CODE "function(${function})\nendfunction()")
  endforeach()
  return()
endif()

include(GoogleTest)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)

# What the dev tree's ctest runs out of a sanitizer tree; `make test` builds only this there.
add_custom_target(tenure_sibling_programs)
# What `make check` builds: all but benchmarks.
add_custom_target(tenure_check_programs)

# Tests, benchmarks and examples are all compiled alike, and share a precompiled header. Only the
# release tree measures, so only there benchmarks are optimised.
if(NOT TENURE_TREE STREQUAL release)
  add_library(tenure_test_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_compile_options(tenure_test_pch PRIVATE ${TENURE_TEST_FLAGS})
  target_link_libraries(tenure_test_pch PRIVATE GTest::gtest rapidcheck Threads::Threads)
  target_precompile_headers(tenure_test_pch PRIVATE
    "${PROJECT_SOURCE_DIR}/cmake/pch.hpp" <gtest/gtest.h> <rapidcheck.h>)
endif()

# tenure_test_code(TARGET): how code that is not the product is compiled.
function(tenure_test_code target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  if(TARGET tenure_test_pch)
    target_compile_options(${target} PRIVATE ${TENURE_TEST_FLAGS})
    target_precompile_headers(${target} REUSE_FROM tenure_test_pch)
    target_link_libraries(${target} PRIVATE GTest::gtest rapidcheck)
  endif()
  get_target_property(type ${target} TYPE)
  if(TENURE_PIECES AND type STREQUAL STATIC_LIBRARY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    # As in tenure_product_code. A type of one file may have members whose types are local to it.
    target_compile_options(${target} PRIVATE -Wno-shadow
      $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# _tenure_test_pieces(VARIABLE TARGET SOURCE...): what to compile instead of these sources: where
# the tree says so, a dozen tests are one file. To be called in the directory of the target.
function(_tenure_test_pieces variable target)
  set(tests ${ARGN})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(LENGTH tests count)
  if(NOT TENURE_PIECES OR count LESS 2)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(sources ${ARGN})
  list(REMOVE_ITEM sources ${tests})
  math(EXPR pieces "(${count} + 11) / 12")
  math(EXPR size "(${count} + ${pieces} - 1) / ${pieces}")
  set(tool "${PROJECT_SOURCE_DIR}/tools/test_piece.py")
  foreach(number RANGE 1 ${pieces})
    math(EXPR first "(${number} - 1) * ${size}")
    list(SUBLIST tests ${first} ${size} part)
    list(TRANSFORM part REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
    set(piece "${CMAKE_CURRENT_BINARY_DIR}/pieces/${target}_${number}.cpp")
    add_custom_command(OUTPUT "${piece}" VERBATIM
      COMMAND python3 "${tool}" "${piece}" ${part}
      DEPENDS "${tool}" ${part} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    list(APPEND sources "${piece}")
  endforeach()
  # As in tenure_product_code; coroutines of headers may have a lambda of a test in their frame.
  target_compile_options(${target} PRIVATE -Wno-shadow
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# Adds the executable, in `all` where this tree builds its kind. Sets tenure_in_tree for the caller.
function(_tenure_program name kind directory)
  cmake_parse_arguments(PARSE_ARGV 3 program "" "" "SOURCES;LINK")
  add_executable(${name})
  _tenure_test_pieces(sources ${name} ${program_SOURCES})
  target_sources(${name} PRIVATE ${sources})
  tenure_test_code(${name})
  target_link_libraries(${name} PRIVATE ${program_LINK} Threads::Threads)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${directory}")
  if(kind IN_LIST TENURE_KINDS)
    set(tenure_in_tree ON PARENT_SCOPE)
    if(NOT kind STREQUAL bench)
      add_dependencies(tenure_check_programs ${name})
    endif()
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set(tenure_in_tree OFF PARENT_SCOPE)
  endif()
endfunction()

# tenure_entry(NAME LABEL SECONDS COMMAND...): a ctest entry with the environment of all tests.
# ctest starts four at a time, those that take longest first. Campaigns and servers mostly wait;
# sanitizers and fuzzers keep a core busy, so each counts for two.
function(tenure_entry name label timeout)
  add_test(NAME ${name} COMMAND ${ARGN})
  # Of one test of the program, where it has several: see tests/kit/patience.hpp.
  math(EXPR limit "${timeout} * 2 / 3")
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${timeout} ENVIRONMENT "${TENURE_TEST_ENVIRONMENT};TENURE_TEST_LIMIT=${limit}")
  if(label)
    set_tests_properties(${name} PROPERTIES LABELS "${label}" COST 100)
  endif()
  if(label MATCHES "^(campaign|server)$")
    set_tests_properties(${name} PROPERTIES COST 200)
  elseif(label MATCHES "^(sanitizer|fuzz)$")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# The kind of a test that these sanitizers run: the tsan tree has no others.
function(_tenure_test_kind variable)
  set(${variable} test PARENT_SCOPE)
  if(TENURE_TREE STREQUAL tsan AND tsan IN_LIST ARGN)
    set(${variable} tsan_test PARENT_SCOPE)
  endif()
endfunction()

# tenure_run(unit_test spaces.postgres [FILTER f] [ENVIRONMENT A=b ...] [LABEL server]
#            [SANITIZE asan tsan] [SHARDS n] [ONLY])
#
# Runs a gtest program as a whole, as one ctest entry. SANITIZE names the trees whose build of the
# program the dev tree runs too, as asan.<entry>.<n> and tsan.<entry>.<n>, in SHARDS pieces. With
# ONLY the program of this tree is not run.
function(tenure_run program entry)
  cmake_parse_arguments(PARSE_ARGV 2 arg "ONLY" "FILTER;LABEL;SHARDS" "ENVIRONMENT;SANITIZE")
  set(name ${entry})
  _tenure_check_arguments(tenure_run)
  set(arguments --gtest_brief=1)
  if(arg_FILTER)
    list(APPEND arguments "--gtest_filter=${arg_FILTER}")
  endif()
  set(entries)
  _tenure_test_kind(kind ${arg_SANITIZE})
  if(kind IN_LIST TENURE_KINDS AND NOT arg_ONLY)
    tenure_entry(${entry} "${arg_LABEL}" 900 ${program} ${arguments})
    list(APPEND entries ${entry})
  endif()
  if(TENURE_TREE IN_LIST arg_SANITIZE)
    add_dependencies(tenure_sibling_programs ${program})
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(TENURE_TREE STREQUAL dev)
    foreach(tree IN LISTS arg_SANITIZE)
      string(TOUPPER ${tree} upper)
      foreach(shard RANGE 1 ${arg_SHARDS})
        math(EXPR index "${shard} - 1")
        set(one ${tree}.${entry}.${shard})
        tenure_entry(${one} sanitizer 1200
          "${TENURE_${upper}_TREE}/tests/${program}" ${arguments})
        set_property(TEST ${one} APPEND PROPERTY ENVIRONMENT
          GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
        list(APPEND entries ${one})
      endforeach()
    endforeach()
  endif()
  if(entries AND arg_ENVIRONMENT)
    set_property(TEST ${entries} APPEND PROPERTY ENVIRONMENT ${arg_ENVIRONMENT})
  endif()
endfunction()

# tenure_test(core_test [FROM directory ...] [SOURCES x_test.cpp ...] [LINK tenure::core ...]
#             [LABEL server] [WHOLE] [FILTER f] [SANITIZE asan tsan] [SHARDS n])
#
# A gtest program out of every x_test.cpp in the directories FROM, and of SOURCES. Each case is a
# ctest entry; with WHOLE or a LABEL (server, campaign) all of them are one. For the rest see
# tenure_run.
function(tenure_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "LABEL;FILTER;SHARDS" "FROM;SOURCES;LINK;SANITIZE")
  _tenure_check_arguments(tenure_test)
  tenure_files(sources *_test.cpp ${arg_FROM})
  _tenure_test_kind(kind ${arg_SANITIZE})
  _tenure_program(${name} ${kind} tests SOURCES ${sources} ${arg_SOURCES}
    LINK ${arg_LINK} tenure_test_main)
  set(only)
  if(NOT (arg_WHOLE OR arg_LABEL))
    set(only ONLY)
    if(tenure_in_tree)
      gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
        PROPERTIES TIMEOUT 120 ENVIRONMENT "${TENURE_TEST_ENVIRONMENT}")
    endif()
  endif()
  tenure_run(${name} ${name} ${only} FILTER "${arg_FILTER}" LABEL "${arg_LABEL}"
    SHARDS "${arg_SHARDS}" SANITIZE ${arg_SANITIZE})
endfunction()

# tenure_unit_tests([FROM directory ...] [SOURCES ...] [LINK ...] [OPTIMIZED x_test.cpp ...]
#                   [EXCEPT x_test.cpp ...])
#
# Adds a room's tests to unit_test, the one program for all tests that need neither servers nor
# processes of their own.
function(tenure_unit_tests)
  set(name unit_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FROM;SOURCES;LINK;OPTIMIZED;EXCEPT")
  _tenure_check_arguments(tenure_unit_tests)
  if(NOT arg_FROM AND NOT arg_SOURCES)
    set(arg_FROM .)
  endif()
  tenure_files(sources *_test.cpp ${arg_FROM})
  list(TRANSFORM arg_EXCEPT PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  if(arg_EXCEPT)
    list(REMOVE_ITEM sources ${arg_EXCEPT})
  endif()
  # Names are relative to the room, not to the program's directory.
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_link_libraries(unit_test PRIVATE ${arg_LINK})
  list(TRANSFORM arg_OPTIMIZED PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  if(arg_OPTIMIZED)
    list(REMOVE_ITEM sources ${arg_OPTIMIZED})
    target_sources(unit_test PRIVATE ${arg_OPTIMIZED})
    set_source_files_properties(${arg_OPTIMIZED} TARGET_DIRECTORY unit_test PROPERTIES
      COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON)
  endif()
  # The rooms together fill fewer pieces.
  set_property(GLOBAL APPEND PROPERTY tenure_unit_test_sources ${sources} ${arg_SOURCES})
endfunction()

function(_tenure_finish_unit_test)
  get_property(all GLOBAL PROPERTY tenure_unit_test_sources)
  _tenure_test_pieces(sources unit_test ${all})
  target_sources(unit_test PRIVATE ${sources})
endfunction()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL _tenure_finish_unit_test)

# tenure_script(NAME LABEL FILE CASE PROGRAM): a case of a Python test of a program.
function(tenure_script name label file case program)
  if(test IN_LIST TENURE_KINDS)
    tenure_entry(${name} "${label}" 300
      "${file}" ${case} $<TARGET_FILE:${program}>)
  endif()
endfunction()

# tenure_tool(stress tests/stress SOURCES stress.cpp LINK ...): a program that tests run, in that
# directory of the tree.
function(tenure_tool name directory)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_tool)
  _tenure_program(${name} test ${directory} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
endfunction()

# tenure_fuzz(path_fuzz LINK tenure::core [SOURCES more.cpp])
#
# A libFuzzer program of the asan tree, out of path_fuzz.cpp. The dev tree's ctest runs it for five
# seconds, `make fuzz` for longer.
function(tenure_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_fuzz)
  _tenure_program(${name} fuzz fuzz SOURCES ${name}.cpp ${arg_SOURCES} LINK ${arg_LINK})
  target_compile_options(${name} PRIVATE -O1 -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(tenure_in_tree)
    add_dependencies(tenure_sibling_programs ${name})
  endif()
  if(tenure_in_tree OR TENURE_TREE STREQUAL dev)
    # A fixed seed: a test that fails today must not pass tomorrow by luck.
    tenure_entry(fuzz.${name} fuzz 60
      "${PROJECT_SOURCE_DIR}/tools/fuzz.sh" "${TENURE_ASAN_TREE}/fuzz/${name}" 5 -seed=1)
  endif()
endfunction()

# tenure_bench(local_bench SOURCES local_bench.cpp LINK tenure::space ...)
#
# A program that answers questions with ratios and exits non-zero when a bar is missed. It takes the
# name of one question, and --smoke: run briefly, hold no bars. ctest runs the smoke, so that no
# benchmark rots; `make bench` measures, in the release tree.
function(tenure_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_bench)
  _tenure_program(${name} bench bench SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  if(tenure_in_tree)
    tenure_entry(bench.${name} bench 300 ${name} --smoke)
  endif()
endfunction()

# tenure_example(book): a program to read, book.cpp. ctest runs it; its output must be book.txt, to
# the byte.
function(tenure_example name)
  _tenure_program(${name} example examples SOURCES ${name}.cpp LINK tenure::tenure)
  if(tenure_in_tree)
    tenure_entry(example.${name} "" 60 bash -c
      "set -o pipefail; \"$0\" | diff -u --label expected --label printed \"$1\" -"
      $<TARGET_FILE:${name}> "${CMAKE_CURRENT_SOURCE_DIR}/${name}.txt")
  endif()
endfunction()

# The program of tenure_unit_tests.
_tenure_test_kind(kind asan tsan)
_tenure_program(unit_test ${kind} tests SOURCES LINK tenure::tenure tenure_test_main)
if(kind IN_LIST TENURE_KINDS)
  gtest_discover_tests(unit_test DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 120 ENVIRONMENT "${TENURE_TEST_ENVIRONMENT}")
endif()
# The exhaustive walks are single-threaded and long.
tenure_run(unit_test unit_test ONLY FILTER -RuleExhaustive* SHARDS 4 SANITIZE asan tsan)

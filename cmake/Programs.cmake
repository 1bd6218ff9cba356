# The programs that try, attack, measure and show the library. Each kind has a fixed directory in
# its tree (<tree>/tests/core_test, <tree>/fuzz/path_fuzz, ...), so that the dev tree can run what
# the sanitizer trees built, and the tools need no list of programs.

include(GoogleTest)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)

# What the dev tree's ctest runs out of a sanitizer tree; `make test` builds only this there.
add_custom_target(tenure_sibling_programs)

# Adds the executable, in `all` where this tree builds its kind. Sets tenure_in_tree for the caller.
function(_tenure_program name kind directory)
  cmake_parse_arguments(PARSE_ARGV 3 program "" "" "SOURCES;LINK")
  add_executable(${name} ${program_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${program_LINK} Threads::Threads)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${directory}")
  if(kind IN_LIST TENURE_KINDS)
    set(tenure_in_tree ON PARENT_SCOPE)
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set(tenure_in_tree OFF PARENT_SCOPE)
  endif()
endfunction()

# tenure_test(core_test SOURCES path_test.cpp ... LINK tenure::core [RAPIDCHECK] [CONCURRENT]
#             [WHOLE])
#
# A gtest program; each of its cases is a ctest entry. RAPIDCHECK links that library. CONCURRENT is
# for a program with threads in it: the dev tree also runs all of it as tsan.<name> and asan.<name>.
# WHOLE is for one that starts a server for all of its cases: they are one ctest entry.
function(tenure_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RAPIDCHECK;CONCURRENT;WHOLE" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_test)
  set(kind test)
  if(arg_CONCURRENT)
    set(kind concurrent_test)
  endif()
  _tenure_program(${name} ${kind} tests
    SOURCES ${arg_SOURCES}
    LINK ${arg_LINK} GTest::gtest_main $<$<BOOL:${arg_RAPIDCHECK}>:rapidcheck>)

  if(tenure_in_tree AND arg_WHOLE)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES
      TIMEOUT 300 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
  elseif(tenure_in_tree)
    gtest_discover_tests(${name}
      DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 120 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
  endif()
  if(arg_CONCURRENT)
    add_dependencies(tenure_sibling_programs ${name})
    if(TENURE_TREE STREQUAL dev)
      add_test(NAME tsan.${name} COMMAND "${TENURE_TSAN_TREE}/tests/${name}" --gtest_brief=1)
      add_test(NAME asan.${name} COMMAND "${TENURE_ASAN_TREE}/tests/${name}" --gtest_brief=1)
      set_tests_properties(tsan.${name} asan.${name} PROPERTIES
        TIMEOUT 1200 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
    endif()
  endif()
endfunction()

# tenure_fuzz(path_fuzz SOURCES path_fuzz.cpp LINK tenure::core [CORPUS directory])
#
# A libFuzzer program of the asan tree. The dev tree's ctest runs it for five seconds, `make fuzz`
# for longer. CORPUS is a directory of first inputs, relative to the room; it is only read.
function(tenure_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS" "SOURCES;LINK")
  _tenure_check_arguments(tenure_fuzz)
  _tenure_program(${name} fuzz fuzz SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(tenure_in_tree)
    add_dependencies(tenure_sibling_programs ${name})
  endif()

  if(tenure_in_tree AND arg_CORPUS)
    # tools/fuzz.sh looks for the first inputs beside the program.
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS}"
      "${PROJECT_BINARY_DIR}/fuzz/${name}.seeds" SYMBOLIC)
  endif()
  if(tenure_in_tree OR TENURE_TREE STREQUAL dev)
    # A fixed seed: a test that fails today must not pass tomorrow by luck.
    add_test(NAME fuzz.${name}
      COMMAND "${PROJECT_SOURCE_DIR}/tools/fuzz.sh" "${TENURE_ASAN_TREE}/fuzz/${name}" 5 -seed=1)
    set_tests_properties(fuzz.${name} PROPERTIES
      TIMEOUT 60 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
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
    add_test(NAME bench.${name} COMMAND ${name} --smoke)
    set_tests_properties(bench.${name} PROPERTIES
      TIMEOUT 120 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
  endif()
endfunction()

# tenure_example(book SOURCES book.cpp LINK tenure::tenure [EXPECT book.txt])
#
# A program to read. ctest runs it; with EXPECT its output must be that file, to the byte.
function(tenure_example name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPECT" "SOURCES;LINK")
  _tenure_check_arguments(tenure_example)
  _tenure_program(${name} example examples SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  if(tenure_in_tree)
    if(arg_EXPECT)
      add_test(NAME example.${name} COMMAND bash -c
        "set -o pipefail; \"$0\" | diff -u --label expected --label printed \"$1\" -"
        $<TARGET_FILE:${name}> "${CMAKE_CURRENT_SOURCE_DIR}/${arg_EXPECT}")
    else()
      add_test(NAME example.${name} COMMAND ${name})
    endif()
    set_tests_properties(example.${name} PROPERTIES
      TIMEOUT 60 ENVIRONMENT "${TENURE_SANITIZER_ENVIRONMENT}")
  endif()
endfunction()

# The library and the program: one target per room.

# tenure_files(VARIABLE PATTERN DIRECTORY...): the files of these directories that match.
function(tenure_files variable pattern)
  set(all)
  foreach(directory IN LISTS ARGN)
    get_filename_component(directory "${directory}" ABSOLUTE)
    file(GLOB found CONFIGURE_DEPENDS "${directory}/${pattern}")
    list(APPEND all ${found})
  endforeach()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

# tenure_sources(VARIABLE DIRECTORY...): the C++ files of these directories, less those of tests,
# benchmarks and fuzzers.
function(tenure_sources variable)
  tenure_files(all *.cpp ${ARGN})
  list(FILTER all EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

# tenure_product_code(TARGET): how the library, the program and the module are compiled: a room in
# one piece, or each file with a precompiled header.
function(tenure_product_code target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  if(TENURE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # A local name may be that of a constant in another file. The dev tree has this warning.
    target_compile_options(${target} PRIVATE -Wno-shadow)
  elseif(TARGET tenure_pch)
    target_precompile_headers(${target} REUSE_FROM tenure_pch)
  endif()
endfunction()

if(TENURE_TREE STREQUAL dev)
  add_library(tenure_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_precompile_headers(tenure_pch PRIVATE "${PROJECT_SOURCE_DIR}/cmake/pch.hpp")
endif()

# tenure_layer(core HEADERS tenure/path.hpp ... [FROM directory ...] [SOURCES file.cpp ...]
#              [DEPENDS base ...] [LIBRARIES SQLite::SQLite3 ...] [INTERNAL])
#
# Makes tenure::core, a static library, out of every C++ file of the room, or of the directories
# FROM, and of SOURCES. HEADERS are public ones, relative to include/. Sources find private headers
# from src/ (#include "core/rule.hpp"). DEPENDS names lower layers; their users inherit them.
# LIBRARIES are others' and only for the sources; users link them, so tenureConfig.cmake must find
# them too. An INTERNAL layer is part of the program and not of the library: it is not installed, so
# users of the library do not link its LIBRARIES.
function(tenure_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "" "HEADERS;FROM;SOURCES;DEPENDS;LIBRARIES")
  _tenure_check_arguments(tenure_layer)
  if(NOT arg_FROM)
    set(arg_FROM .)
  endif()
  tenure_sources(sources ${arg_FROM})
  set(target tenure_${name})
  add_library(${target} STATIC ${sources} ${arg_SOURCES})
  add_library(tenure::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  tenure_product_code(${target})

  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/")
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
  list(TRANSFORM arg_DEPENDS PREPEND tenure::)
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} Threads::Threads PRIVATE ${arg_LIBRARIES})
  target_compile_features(${target} PUBLIC cxx_std_23)
  if(arg_INTERNAL)
    return()
  endif()

  set_property(GLOBAL APPEND PROPERTY tenure_static_libraries ${target})
  target_link_libraries(tenure_all INTERFACE ${target})
  add_dependencies(tenure_installed ${target})
  install(TARGETS ${target} EXPORT tenure FILE_SET HEADERS)
endfunction()

# tenure_program(tenure LINK tenure::space ...)
#
# A program for people, out of every C++ file of the room, in <tree>/bin (build/bin in the dev
# tree), installed with the library. It looks for modules relative to itself, in the tree as in the
# prefix. The install step must not change the RUNPATH: to make room for that, CMake puts an empty
# element, which means the current directory, into the RUNPATH of the program in the tree.
function(tenure_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  _tenure_check_arguments(tenure_program)
  tenure_sources(sources .)
  add_executable(${name} ${sources})
  tenure_product_code(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  file(RELATIVE_PATH modules "/${CMAKE_INSTALL_BINDIR}" "/${tenure_module_dir}")
  set_target_properties(${name} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/${modules}")
  add_dependencies(tenure_installed ${name})
  install(TARGETS ${name})
endfunction()

# tenure_module(tenure_etcd SOURCES module.cpp LINK ...)
#
# A part of the library that is loaded when it is asked for (src/store/module.hpp), with a copy of
# the layers in it that no other object sees. In <tree>/lib/tenure, where the programs of the tree
# look; installed with the library.
function(tenure_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_module)
  add_library(${name} MODULE ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${arg_LINK} Threads::Threads)
  target_link_options(${name} PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/module.map")
  set_target_properties(${name} PROPERTIES PREFIX "" BUILD_WITH_INSTALL_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${tenure_module_dir}")
  add_dependencies(tenure_installed ${name})
  install(TARGETS ${name} LIBRARY DESTINATION "${tenure_module_dir}")
  if(TENURE_TREE STREQUAL dev)
    # Its program has the short path, and looks beside that.
    string(REGEX MATCH "^[^/]+" lib "${tenure_module_dir}")
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/${lib}")
    file(CREATE_LINK "${PROJECT_BINARY_DIR}/${lib}" "${PROJECT_SOURCE_DIR}/build/${lib}" SYMBOLIC)
  endif()
endfunction()

# A misspelt keyword would otherwise be swallowed by the list before it.
macro(_tenure_check_arguments function)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

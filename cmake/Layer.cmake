# The library itself: one target a layer.

# tenure_layer(core HEADERS tenure/path.hpp ... [SOURCES path.cpp ...] [DEPENDS base ...]
#              [LIBRARIES SQLite::SQLite3 ...])
#
# Makes tenure::core, a static library, or an interface one where there are no SOURCES. HEADERS are
# public ones, relative to include/. SOURCES are relative to the room, and find private headers from
# src/ (#include "core/rule.hpp"). DEPENDS names lower layers; their users inherit them. LIBRARIES
# are others' and only for the sources; users link them, so tenureConfig.cmake must find them too.
function(tenure_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;DEPENDS;LIBRARIES")
  _tenure_check_arguments(tenure_layer)
  set(target tenure_${name})

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    # A plug-in may carry its own copy.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set_property(GLOBAL APPEND PROPERTY tenure_static_libraries ${target})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(tenure::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})

  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/")
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
  list(TRANSFORM arg_DEPENDS PREPEND tenure::)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS} Threads::Threads)
  if(arg_LIBRARIES)
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  endif()
  target_compile_features(${target} ${scope} cxx_std_23)

  target_link_libraries(tenure_all INTERFACE ${target})
  add_dependencies(tenure_installed ${target})
  install(TARGETS ${target} EXPORT tenure FILE_SET HEADERS)
endfunction()

# tenure_program(tenure SOURCES main.cpp ... LINK tenure::space ...)
#
# A program for people, in <tree>/bin (build/bin in the dev tree), installed with the library. It
# looks for modules relative to itself, in the tree as in the prefix. The install step must not
# change the RUNPATH: to make room for that, CMake puts an empty element, which means the current
# directory, into the RUNPATH of the program in the tree.
function(tenure_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _tenure_check_arguments(tenure_program)
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
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

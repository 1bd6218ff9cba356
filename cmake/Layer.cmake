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

# tenure_product_code(TARGET [HEADER...]): how the library, the program and the module are compiled:
# a room in a few pieces, or each file with a precompiled header. It is the one of all rooms, or, of
# a room that includes large HEADERS almost everywhere, its own.
function(tenure_product_code target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  if(TENURE_PIECES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    # A local name may be that of a constant in another file. The dev tree has this warning.
    target_compile_options(${target} PRIVATE -Wno-shadow)
  elseif(TARGET tenure_pch AND ARGN)
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/pch.hpp" ${ARGN})
  elseif(TARGET tenure_pch)
    target_precompile_headers(${target} REUSE_FROM tenure_pch)
  endif()
endfunction()

if(TENURE_TREE STREQUAL dev AND NOT TENURE_PIECES)
  add_library(tenure_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_precompile_headers(tenure_pch PRIVATE "${PROJECT_SOURCE_DIR}/cmake/pch.hpp")
endif()

# tenure_layer(core HEADERS tenure/path.hpp ... [FROM directory ...] [SOURCES file.cpp ...]
#              [DEPENDS base ...] [LIBRARIES SQLite::SQLite3 ...] [INTERNAL]
#              [COMPONENT local] [PACKAGES sqlite3 ...] [DRIVER symbol])
#
# Makes tenure::core, a static library, out of every C++ file of the room, or of the directories
# FROM, and of SOURCES. HEADERS are public ones, relative to include/. Sources find private headers
# from src/ (#include "core/rule.hpp"). DEPENDS names lower layers; their users inherit them.
# LIBRARIES are others' and only for the sources; users link them, so tenureConfig.cmake must find
# them too; PACKAGES are their names for pkg-config, or -l options. An INTERNAL layer is part of the
# program and not of the library: it is not installed, so users of the library do not link its
# LIBRARIES.
#
# COMPONENT says which part of the package contains the layer; if not given, one of its own name.
# DRIVER is a symbol of the layer that every program that links the layer needs, although only a
# weak reference names it (src/store/driver.hpp).
#
# The objects are linked twice: into a static library, which the programs here use, and into a
# shared one, tenure_core_shared, which is only installed.
function(tenure_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "COMPONENT;DRIVER"
    "HEADERS;FROM;SOURCES;DEPENDS;LIBRARIES;PACKAGES")
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
  if(arg_DRIVER)
    target_link_options(${target} INTERFACE "LINKER:-u,${arg_DRIVER}")
  endif()
  if(arg_INTERNAL)
    return()
  endif()
  target_link_libraries(tenure_all INTERFACE ${target})
  install(TARGETS ${target} EXPORT tenure_static ARCHIVE COMPONENT static FILE_SET HEADERS)
  _tenure_shared_layer(${name})
  add_dependencies(tenure_installed ${target} ${target}_shared)

  if(NOT arg_COMPONENT)
    set(arg_COMPONENT ${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY tenure_components ${arg_COMPONENT})
  set_property(GLOBAL APPEND PROPERTY tenure_libraries_${arg_COMPONENT} -l${target})
  set_property(GLOBAL APPEND PROPERTY tenure_packages_${arg_COMPONENT} ${arg_PACKAGES})
  if(arg_DRIVER)
    set_property(GLOBAL APPEND PROPERTY tenure_libraries_${arg_COMPONENT}
      -Wl,--no-as-needed,-u,${arg_DRIVER})
  endif()
endfunction()

# The shared library of a layer, for the variables of tenure_layer.
function(_tenure_shared_layer name)
  set(shared ${target}_shared)
  add_library(${shared} SHARED $<TARGET_OBJECTS:${target}>)
  set_target_properties(${shared} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME ${target}
    LINKER_LANGUAGE CXX SOVERSION "${PROJECT_VERSION}" EXCLUDE_FROM_ALL "${tenure_no_package}"
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN;$ORIGIN/tenure")
  list(TRANSFORM arg_DEPENDS APPEND _shared)
  list(TRANSFORM arg_DEPENDS REPLACE "^tenure::" tenure_)
  target_link_libraries(${shared} PUBLIC ${arg_DEPENDS} Threads::Threads PRIVATE ${arg_LIBRARIES})
  target_include_directories(${shared} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(${shared} PUBLIC cxx_std_23)
  if(arg_DRIVER)
    # Where a compiler links only the shared libraries that are needed, -u does not make one needed.
    target_link_options(${shared} INTERFACE "LINKER:--no-as-needed,-u,${arg_DRIVER}")
  endif()
  target_link_libraries(tenure_all_shared INTERFACE ${shared})
  install(TARGETS ${shared} EXPORT tenure_shared LIBRARY COMPONENT shared)
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

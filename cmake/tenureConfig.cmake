# Read by find_package(tenure [COMPONENTS local sqlite postgres etcd flow pipeline git]). Without
# COMPONENTS all that is installed is found, and tenure::tenure is everything. Each component is a
# target, tenure::sqlite, which brings with it what it needs; a program links those that it uses.
# Where both were installed, the library is static, or shared if BUILD_SHARED_LIBS is on.
#
# The static library needs threads; SQLite and libpq, where their components are linked; and
# libgit2 and date-tz, which are linked by their names. The users of the Asio header bring Boost's
# headers along.
#
# tenure_MODULES_DIR is where modules (etcd) are, whether or not any was installed. Every program
# that links tenure::store gets it as a RUNPATH, and finds its modules there (docs/install.md).
include(CMakeFindDependencyMacro)
find_dependency(Threads)
set(tenure_kind static)
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/tenure_shared.cmake" AND
    (BUILD_SHARED_LIBS OR NOT EXISTS "${CMAKE_CURRENT_LIST_DIR}/tenure_static.cmake"))
  set(tenure_kind shared)
endif()
set(tenure_wanted ${tenure_FIND_COMPONENTS})
if(NOT tenure_wanted)
  set(tenure_wanted sqlite postgres)
endif()
if(tenure_kind STREQUAL static)
  if(sqlite IN_LIST tenure_wanted)
    find_dependency(SQLite3)
  endif()
  if(postgres IN_LIST tenure_wanted)
    find_dependency(PostgreSQL)
  endif()
endif()
if(NOT TARGET tenure::store)
  include("${CMAKE_CURRENT_LIST_DIR}/tenure_${tenure_kind}.cmake")
  get_filename_component(tenure_MODULES_DIR "${CMAKE_CURRENT_LIST_DIR}/../../tenure" ABSOLUTE)
  set_property(TARGET tenure::store APPEND PROPERTY
    INTERFACE_LINK_OPTIONS "LINKER:-rpath,${tenure_MODULES_DIR}")
  # Not layers: the spaces without a store, and the module, which no program links.
  add_library(tenure::local INTERFACE IMPORTED)
  target_link_libraries(tenure::local INTERFACE tenure::space)
  if(EXISTS "${tenure_MODULES_DIR}/tenure_etcd.so")
    add_library(tenure::etcd INTERFACE IMPORTED)
    target_link_libraries(tenure::etcd INTERFACE tenure::space)
  endif()
endif()
foreach(tenure_component IN LISTS tenure_FIND_COMPONENTS)
  if(TARGET tenure::${tenure_component})
    set(tenure_${tenure_component}_FOUND TRUE)
  elseif(tenure_FIND_REQUIRED_${tenure_component})
    set(tenure_FOUND FALSE)
    set(tenure_NOT_FOUND_MESSAGE "Tenure's component '${tenure_component}' is not installed in\
 ${CMAKE_CURRENT_LIST_DIR}; there are local, sqlite, postgres, etcd, flow, pipeline and git")
  endif()
endforeach()

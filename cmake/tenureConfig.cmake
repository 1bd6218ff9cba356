# Read by find_package(tenure). The library needs threads, SQLite, libpq, and libgit2 and date-tz,
# which are linked by their names; who includes the Asio header brings Boost's headers along.
#
# tenure_MODULES_DIR is where modules (etcd) are, whether or not any was installed. Every program
# that links tenure::store gets it as a RUNPATH, and finds its modules there (docs/install.md).
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(SQLite3)
find_dependency(PostgreSQL)
include("${CMAKE_CURRENT_LIST_DIR}/tenureTargets.cmake")
get_filename_component(tenure_MODULES_DIR "${CMAKE_CURRENT_LIST_DIR}/../../tenure" ABSOLUTE)
set_property(TARGET tenure::store APPEND PROPERTY
  INTERFACE_LINK_OPTIONS "LINKER:-rpath,${tenure_MODULES_DIR}")

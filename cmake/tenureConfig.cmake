# Read by find_package(tenure). Threads, SQLite and libpq are all the library needs; who includes
# the Asio header brings Boost's headers along.
#
# tenure_MODULES_DIR is where the modules are (etcd). A program that is not installed beside them
# finds them by the environment variable TENURE_MODULES.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(SQLite3)
find_dependency(PostgreSQL)
include("${CMAKE_CURRENT_LIST_DIR}/tenureTargets.cmake")
get_filename_component(tenure_MODULES_DIR "${CMAKE_CURRENT_LIST_DIR}/../../tenure" ABSOLUTE)

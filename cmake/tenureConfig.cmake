# Read by find_package(tenure). Threads and SQLite are all the library needs; whoever includes the
# Asio header brings Boost's headers along.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(SQLite3)
include("${CMAKE_CURRENT_LIST_DIR}/tenureTargets.cmake")

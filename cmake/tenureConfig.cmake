# Read by find_package(tenure). Threads, SQLite and libpq are all the library needs; who includes
# the Asio header brings Boost's headers along.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(SQLite3)
find_dependency(PostgreSQL)
include("${CMAKE_CURRENT_LIST_DIR}/tenureTargets.cmake")

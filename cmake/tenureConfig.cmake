# Read by find_package(tenure). Threads, SQLite and gRPC are all the library needs; whoever includes
# the Asio header brings Boost's headers along.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(SQLite3)
find_dependency(Protobuf)
find_dependency(gRPC CONFIG)
include("${CMAKE_CURRENT_LIST_DIR}/tenureTargets.cmake")

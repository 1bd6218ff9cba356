# What `cmake --install` leaves behind, so that another project writes
#     find_package(tenure REQUIRED)
#     target_link_libraries(app PRIVATE tenure::tenure)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# tenure::tenure is every layer; tenure_layer() adds each to it. The target is not called `tenure`
# because the program is.
add_library(tenure_all INTERFACE)
add_library(tenure::tenure ALIAS tenure_all)
set_target_properties(tenure_all PROPERTIES EXPORT_NAME tenure)

set(tenure_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tenure")
install(TARGETS tenure_all EXPORT tenure)
install(EXPORT tenure NAMESPACE tenure:: FILE tenureTargets.cmake
  DESTINATION "${tenure_package_dir}")

# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tenureConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_SOURCE_DIR}/cmake/tenureConfig.cmake"
  "${PROJECT_BINARY_DIR}/tenureConfigVersion.cmake"
  DESTINATION "${tenure_package_dir}")

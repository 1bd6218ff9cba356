# What `cmake --install` leaves behind, so that another project writes
#     find_package(tenure REQUIRED)
#     target_link_libraries(app PRIVATE tenure::tenure)
# or uses `pkg-config --cflags --libs tenure`. No installed file contains an absolute path, so the
# prefix can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# tenure::tenure is every layer; tenure_layer() adds each to it. The target is not called `tenure`
# because the program is.
add_library(tenure_all INTERFACE)
add_library(tenure::tenure ALIAS tenure_all)
set_target_properties(tenure_all PROPERTIES EXPORT_NAME tenure)

# A Name records the source location of its definition; without the map that is an absolute path.
if(CMAKE_BUILD_TYPE STREQUAL Release)
  add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
endif()

# All that has to be built before `cmake --install`.
add_custom_target(tenure_installed)

# Where modules are, in the prefix as in a tree. The linker writes it into each program as its
# RUNPATH, and src/store/module.cpp reads it there. This is for tests and benchmarks.
set(tenure_module_dir "${CMAKE_INSTALL_LIBDIR}/tenure")
set(CMAKE_BUILD_RPATH "${PROJECT_BINARY_DIR}/${tenure_module_dir}")

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

# A static library must precede those that it uses: the highest layer first, the reverse of the
# order in which the rooms are added.
function(_tenure_write_pkg_config)
  get_property(libraries GLOBAL PROPERTY tenure_static_libraries)
  list(REVERSE libraries)
  list(TRANSFORM libraries PREPEND -l)
  list(JOIN libraries " " libraries)
  set(pkg_config_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH prefix "/${pkg_config_dir}" /)
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/tenure.pc.in" "${PROJECT_BINARY_DIR}/tenure.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/tenure.pc" DESTINATION "${pkg_config_dir}")
endfunction()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL _tenure_write_pkg_config)

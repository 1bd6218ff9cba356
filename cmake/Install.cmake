# What `cmake --install` leaves behind, so that another project writes
#     find_package(tenure REQUIRED COMPONENTS local sqlite)
#     target_link_libraries(app PRIVATE tenure::local tenure::sqlite)
# or uses `pkg-config --cflags --libs tenure-local tenure-sqlite`. Without COMPONENTS, and with the
# package `tenure`, it gets everything. No installed file contains an absolute path, so the prefix
# can be moved.
#
# The installation has three parts (`cmake --install BUILD --component PART`): `tenure` is what all
# need; `static` or `shared` is the library.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME tenure)

# tenure::tenure is every layer; tenure_layer() adds each to it. The target is not called `tenure`
# because the program is.
add_library(tenure_all INTERFACE)
add_library(tenure::tenure ALIAS tenure_all)
add_library(tenure_all_shared INTERFACE)
set_target_properties(tenure_all tenure_all_shared PROPERTIES EXPORT_NAME tenure)
# Trees that only test need no shared libraries.
set(tenure_no_package ON)
if(TENURE_TREE MATCHES "^(release|dev|gcc)$")
  set(tenure_no_package OFF)
endif()

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
install(TARGETS tenure_all EXPORT tenure_static)
install(TARGETS tenure_all_shared EXPORT tenure_shared)
foreach(kind IN ITEMS static shared)
  install(EXPORT tenure_${kind} NAMESPACE tenure:: FILE tenure_${kind}.cmake
    DESTINATION "${tenure_package_dir}" COMPONENT ${kind})
endforeach()

# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tenureConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_SOURCE_DIR}/cmake/tenureConfig.cmake"
  "${PROJECT_BINARY_DIR}/tenureConfigVersion.cmake"
  DESTINATION "${tenure_package_dir}")

# One package for pkg-config per component, and `tenure`, which requires all of them. A static
# library must precede those that it uses: the highest layer first, the reverse of the order in
# which the rooms are added.
function(_tenure_write_pkg_config)
  set(pkg_config_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH prefix "/${pkg_config_dir}" /)
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  get_property(components GLOBAL PROPERTY tenure_components)
  list(REMOVE_DUPLICATES components)
  set(all)
  foreach(component IN LISTS components)
    get_property(libraries GLOBAL PROPERTY tenure_libraries_${component})
    get_property(packages GLOBAL PROPERTY tenure_packages_${component})
    list(REVERSE libraries)
    set(options ${packages})
    list(FILTER options INCLUDE REGEX "^-l")
    list(FILTER packages EXCLUDE REGEX "^-l")
    if(component STREQUAL local)
      # Each behind a -l option: behind another one, pkgconf 1.8 does not escape a space.
      list(INSERT libraries 1 "-Wl,-rpath,\${libdir}/tenure")
      list(INSERT libraries 3 "-Wl,-rpath,\${libdir}")
    else()
      list(PREPEND packages tenure-local)
    endif()
    list(JOIN packages " " packages)
    list(JOIN libraries " " libraries)
    list(JOIN options " " options)
    set(package tenure-${component})
    set(libs "-L\${libdir} ${libraries} ${options}")
    set(cflags "-I\${includedir} -std=c++23")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/tenure.pc.in"
      "${PROJECT_BINARY_DIR}/pkgconfig/${package}.pc" @ONLY)
    list(APPEND all ${package})
  endforeach()
  list(REVERSE all)
  list(JOIN all " " packages)
  set(package tenure)
  set(libs)
  set(cflags)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/tenure.pc.in"
    "${PROJECT_BINARY_DIR}/pkgconfig/tenure.pc" @ONLY)
  install(DIRECTORY "${PROJECT_BINARY_DIR}/pkgconfig/" DESTINATION "${pkg_config_dir}")
endfunction()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL _tenure_write_pkg_config)

# The ctest entries that look at the source and the package. Those of the source do not depend on
# the compiler, so only the dev tree has them.

if(TENURE_TREE MATCHES "^(dev|gcc)$")
  # Built with the rest already: here ninja finds nothing to do, or ctest says which header fails.
  # Alone, because two ninjas in one tree would fight.
  add_test(NAME headers.alone COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}"
    --target all_verify_interface_header_sets)
  set_tests_properties(headers.alone PROPERTIES RUN_SERIAL ON TIMEOUT 600)

  add_test(NAME install.consumer
    COMMAND "${PROJECT_SOURCE_DIR}/tests/install/run.sh" "${PROJECT_BINARY_DIR}")
  set_tests_properties(install.consumer PROPERTIES TIMEOUT 300)
endif()

# Only the module has gRPC: it takes 10 ms of every start of a program that links it.
if(TENURE_TREE MATCHES "^(dev|gcc)$")
  add_test(NAME program.links_no_grpc COMMAND bash -c
    "! ldd \"$0\" | grep -iE 'grpc|protobuf' && ldd \"$1\" | grep -q libgrpc"
    $<TARGET_FILE:tenure> $<TARGET_FILE:tenure_etcd>)
endif()

if(TENURE_TREE STREQUAL dev)
  set(tools "${PROJECT_SOURCE_DIR}/tools")
  add_test(NAME check.includes COMMAND python3 "${tools}/check_includes.py")
  add_test(NAME check.includes.self_test COMMAND python3 "${tools}/check_includes.py" --self-test)
  add_test(NAME check.readme COMMAND python3 "${tools}/check_readme.py")
  add_test(NAME check.style COMMAND python3 "${tools}/check_style.py")
  add_test(NAME check.format COMMAND "${tools}/check_format.sh")
  add_test(NAME check.tidy COMMAND "${tools}/tidy.sh")
  # PROCESSORS: tidy starts two at a time itself.
  # First, or it is left for the end: two processors are hardly ever free at once.
  set_tests_properties(check.tidy PROPERTIES COST 1000 PROCESSORS 2 TIMEOUT 3000)
endif()

# The ctest entries that look at the source and the package. Those of the source do not depend on
# the compiler, so only the dev tree has them.

if(TENURE_TREE MATCHES "^(dev|gcc)$")
  tenure_entry(install.consumer server 300
    "${PROJECT_SOURCE_DIR}/tests/install/run.sh" "${PROJECT_BINARY_DIR}")

  # Only the module has gRPC: it takes 10 ms of every start of a program that links it.
  tenure_entry(program.links_no_grpc "" 60 bash -c
    "! ldd \"$0\" | grep -iE 'grpc|protobuf' && ldd \"$1\" | grep -q libgrpc"
    $<TARGET_FILE:tenure> $<TARGET_FILE:tenure_etcd>)
endif()

if(TENURE_TREE STREQUAL dev)
  # Built with the rest already: here ninja finds nothing to do, or ctest says which header fails.
  # Alone, because two ninjas in one tree would fight.
  tenure_entry(headers.alone tidy 600 "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}"
    --target all_verify_interface_header_sets)
  set_tests_properties(headers.alone PROPERTIES RUN_SERIAL ON)

  set(tools "${PROJECT_SOURCE_DIR}/tools")
  tenure_entry(check.includes "" 60 python3 "${tools}/check_includes.py")
  tenure_entry(check.includes.self_test "" 60 python3 "${tools}/check_includes.py" --self-test)
  tenure_entry(check.docs "" 60 python3 "${tools}/check_docs.py")
  tenure_entry(check.docs.self_test "" 60 python3 "${tools}/check_docs.py" --self-test)
  tenure_entry(check.mutations "" 60 python3 "${tools}/check_mutations.py")
  tenure_entry(check.mutations.self_test "" 60 python3 "${tools}/check_mutations.py" --self-test)
  tenure_entry(check.style "" 60 python3 "${tools}/check_style.py")
  tenure_entry(check.format "" 120 "${tools}/check_format.sh")
  tenure_entry(check.tidy tidy 3000 "${tools}/tidy.sh")
  # It reads two pieces at a time. Alone at the beginning: four slots are hardly ever free at once.
  set_tests_properties(check.tidy PROPERTIES COST 1000 PROCESSORS 4)
endif()

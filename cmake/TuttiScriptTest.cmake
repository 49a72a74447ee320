find_package(Python3 REQUIRED COMPONENTS Interpreter)

# tutti_script_test(name script [ARGS ...] [LABELS ...] [TIMEOUT seconds]): a Python test in the caller's folder. Exit
# status 77 means skipped; the line "SKIP: reason" says why.
function(tutti_script_test name script)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ARGS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support")
endfunction()

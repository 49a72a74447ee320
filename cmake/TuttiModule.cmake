# tutti_module(name [DEPENDS targets...]): a static library of the *.cc here, one per folder, and the flags of all our code.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  find_program(TUTTI_CCACHE ccache)
  if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # What one clone has compiled serves another.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${TUTTI_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

# Everything of ours is compiled with these; dependents outside the project see none of them.
add_library(tutti_flags INTERFACE)
target_include_directories(tutti_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -Wno-stringop-overflow
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# Before any system header: strerrorname_np, SOCK_CLOEXEC and friends.
target_compile_definitions(tutti_flags INTERFACE _GNU_SOURCE)
if(TUTTI_SANITIZE STREQUAL "address")
  # Not enum: the C ABI takes any int, and says so of one that is no enumerator. Not vptr: that check needs a descriptor of
  # its own, which tests of exhausted descriptors do not leave.
  target_compile_options(tutti_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=enum,vptr
    -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(tutti_flags INTERFACE -fsanitize=address,undefined)
elseif(TUTTI_SANITIZE STREQUAL "thread")
  target_compile_options(tutti_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(tutti_flags INTERFACE -fsanitize=thread)
elseif(TUTTI_SANITIZE)
  message(FATAL_ERROR "TUTTI_SANITIZE is '${TUTTI_SANITIZE}'; it may be address, thread or empty")
endif()
if(TUTTI_COVERAGE)
  target_compile_options(tutti_flags INTERFACE --coverage -O0)
  target_link_options(tutti_flags INTERFACE --coverage)
endif()

# tutti_plugin(name targets...): libtutti_NAME.so, of plugin/plugin.cc and the libraries given. libtutti loads it when it is
# wanted (comm/plugin.h); nothing links it.
function(tutti_plugin name)
  add_library(tutti_${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugin/plugin.cc)
  target_link_libraries(tutti_${name} PRIVATE tutti_flags ${ARGN})
  target_link_options(tutti_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  install(TARGETS tutti_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
endfunction()

function(tutti_module name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE tutti_flags ${ARG_DEPENDS})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC tutti_flags ${ARG_DEPENDS})
endfunction()

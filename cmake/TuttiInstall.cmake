# What `cmake --install` puts where: the library, its headers, and what find_package(Tutti) and pkg-config need;
# tools/ installs its programs. Included last, when all targets exist. Everything is relative to the prefix, so that a tree can be moved.
include(CMakePackageConfigHelpers)

if(NOT TARGET tutti)
  return()
endif()

install(TARGETS tutti EXPORT TuttiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES LICENSE README.md CHANGELOG.md TYPE DOC COMPONENT development)

set(tutti_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION ${tutti_cmake_dir} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/TuttiConfig.cmake
  INSTALL_DESTINATION ${tutti_cmake_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TuttiConfig.cmake ${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake
  DESTINATION ${tutti_cmake_dir} COMPONENT development)

# From LIBDIR/pkgconfig back to the prefix: "../..", or one more where LIBDIR is lib/x86_64-linux-gnu.
cmake_path(SET tutti_pkgconfig_dir NORMALIZE ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${tutti_pkgconfig_dir} OUTPUT_VARIABLE tutti_to_prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

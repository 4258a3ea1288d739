# `cmake --install`: a package that can be moved. include/sluice has the public
# headers; the headers that they include in turn keep their tree, under
# include/sluice-impl.
include(CMakePackageConfigHelpers)
set(SLUICE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)

set_target_properties(sluice_lib PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS sluice_lib EXPORT SluiceTargets)
if(TARGET sluice_dist_lib)
  set_target_properties(sluice_dist_lib PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS sluice_dist_lib EXPORT SluiceTargets)
endif()
if(TARGET sluice)
  set_target_properties(sluice PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS sluice)
endif()
install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/sluice
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice-impl
        FILES_MATCHING PATTERN "*.h"
        PATTERN "kernels" EXCLUDE PATTERN "proto" EXCLUDE
        PATTERN "ops" EXCLUDE PATTERN "passes" EXCLUDE PATTERN "dist" EXCLUDE
        REGEX "session/(compile|backend|session_state|step)\\.h$" EXCLUDE
        PATTERN "*_internal.h" EXCLUDE PATTERN "*_test*" EXCLUDE)
install(FILES src/dist/local_cluster.h src/dist/task_server.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice-impl/dist)
# What gradients of one's own are built with.
install(FILES src/ops/grad_util.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice-impl/ops)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT SluiceTargets NAMESPACE Sluice::
        DESTINATION ${SLUICE_CMAKE_DIR})
configure_package_config_file(cmake/SluiceConfig.cmake.in
  ${CMAKE_BINARY_DIR}/SluiceConfig.cmake
  INSTALL_DESTINATION ${SLUICE_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/SluiceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/SluiceConfig.cmake
              ${CMAKE_BINARY_DIR}/SluiceConfigVersion.cmake
        DESTINATION ${SLUICE_CMAKE_DIR})

# `cmake --install`: a relocatable package. The headers of include/sluice define
# what is public (cmake/InstallHeaders.cmake); the headers that they include
# keep their tree, under include/sluice-impl.
include(CMakePackageConfigHelpers)
set(SLUICE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)

set_target_properties(sluice_lib PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS sluice_lib EXPORT SluiceTargets)
if(TARGET sluice_cluster_lib)
  set_target_properties(sluice_cluster_lib PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS sluice_cluster_lib EXPORT SluiceTargets)
endif()
if(TARGET sluice_c_lib)
  set_target_properties(sluice_c_lib PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS sluice_c_lib EXPORT SluiceTargets)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/compat/tensorflow
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice-compat)
endif()
if(TARGET sluice_board_lib)
  # (Loaded by its path: no program links it.)
  set_target_properties(sluice_board_lib PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS sluice_board_lib
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/sluice)
endif()
if(TARGET sluice AND NOT SKBUILD)  # (python/CMakeLists.txt.)
  set_target_properties(sluice PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS sluice)
endif()
# (CMAKE_INSTALL_PREFIX is the value of `cmake --install --prefix`.)
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_INCLUDEDIR include_is_absolute)
set(include_prefix)
if(NOT include_is_absolute)
  set(include_prefix "\${CMAKE_INSTALL_PREFIX}/")
endif()
install(CODE "
  set(SLUICE_SOURCE \"${CMAKE_SOURCE_DIR}\")
  set(SLUICE_GENERATED \"${CMAKE_BINARY_DIR}/generated\")
  set(SLUICE_INCLUDE_DESTINATION
      \"${include_prefix}${CMAKE_INSTALL_INCLUDEDIR}\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/InstallHeaders.cmake\")")
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

# For builds without CMake. The headers include each other from two folders.
string(REGEX REPLACE "[^/]+" ".." up ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(requires ${SLUICE_PUBLIC_LIBS})
list(FILTER requires INCLUDE REGEX "^absl::")
list(TRANSFORM requires REPLACE "::" "_")
list(JOIN requires " " requires)
set(packages sluice)
if(SLUICE_MINIMAL)
  set(requires)
else()
  list(APPEND packages sluice_c)
endif()
if(TARGET sluice_cluster_lib)
  list(APPEND packages sluice_cluster)
endif()
foreach(package ${packages})
  configure_file(cmake/${package}.pc.in ${CMAKE_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${package}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The C API of the installed Python package, for CMake:
#   find_package(Sluice REQUIRED)         # -DSluice_DIR=`python -m sluice.sysconfig --cmake-dir`
#   target_link_libraries(my_program PRIVATE Sluice::c)
# (C++ programs need Abseil's headers of the same version: use the library's own
# package.)
if(NOT TARGET Sluice::c)
  get_filename_component(_sluice "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
  add_library(Sluice::c SHARED IMPORTED)
  set_target_properties(Sluice::c PROPERTIES
    IMPORTED_LOCATION "${_sluice}/libsluice_c.so.0"
    IMPORTED_SONAME libsluice_c.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${_sluice}/include"
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
  unset(_sluice)
endif()

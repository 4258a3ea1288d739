# Installs the public headers (those of include/sluice and the headers that
# these include) and the headers that they need in turn: every project header
# that is reachable by #include, and nothing else. Runs at install time, when
# the generated headers exist. Inputs: SLUICE_SOURCE, SLUICE_GENERATED,
# SLUICE_INCLUDE_DESTINATION.
cmake_policy(VERSION 3.25)
file(GLOB entries ${SLUICE_SOURCE}/include/sluice/*.h
     ${SLUICE_GENERATED}/sluice/*.h)
file(INSTALL ${entries} DESTINATION ${SLUICE_INCLUDE_DESTINATION}/sluice)

set(pending ${entries})
set(seen)
while(pending)
  list(POP_FRONT pending header)
  file(STRINGS ${header} includes REGEX "^#include \"")
  foreach(line ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" name "${line}")
    set(included ${SLUICE_SOURCE}/src/${name})
    # (Not in src: a dependency's header or one of the entries.)
    if(included IN_LIST seen OR NOT EXISTS ${included})
      continue()
    endif()
    list(APPEND seen ${included})
    list(APPEND pending ${included})
    cmake_path(GET name PARENT_PATH folder)
    file(INSTALL ${included}
         DESTINATION ${SLUICE_INCLUDE_DESTINATION}/sluice-impl/${folder})
  endforeach()
endwhile()

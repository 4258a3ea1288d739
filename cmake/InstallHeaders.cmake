# Installs the public headers, which are those of include/sluice and what these
# include, and the headers that they need in turn: whatever an #include of ours
# reaches from there, and nothing else. It runs while installing, when the
# generated headers exist. Set before: SLUICE_SOURCE, SLUICE_GENERATED,
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
    # (Not of src: of a dependency, or one of the entries.)
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

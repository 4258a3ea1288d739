# src/**/x_fuzz.cc: libFuzzer programs, x_fuzz each.
foreach(folder ${SLUICE_CORE_LAYERS} ${SLUICE_UPPER_LAYERS})
  file(GLOB_RECURSE fuzzers CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/src/${folder}/*_fuzz.cc)
  foreach(source ${fuzzers})
    cmake_path(GET source STEM name)
    add_executable(${name} ${source} ${SLUICE_OBJECTS})
    target_include_directories(${name} SYSTEM PRIVATE ${SLUICE_PROTO_DIR})
    target_link_libraries(${name} PRIVATE sluice_flags sluice_openmp
      ${SLUICE_PUBLIC_LIBS} ${SLUICE_PRIVATE_LIBS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endforeach()

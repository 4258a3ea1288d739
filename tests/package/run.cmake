# Installs the build into a folder, moves that folder (so that nothing can
# depend on where it was installed), then configures, builds and runs the
# program here against it. cmake with BUILD, SOURCE (this folder), WORK, CXX,
# GENERATOR
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit ${result}: ${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

# No installed header depends on one that is not installed.
set(include ${WORK}/moved/include)
file(GLOB_RECURSE headers RELATIVE ${include}/sluice-impl
     ${include}/sluice-impl/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
list(JOIN headers "" all_headers)
file(WRITE ${WORK}/all_headers.cc "${all_headers}")
run(${CXX} -std=c++20 -fsyntax-only -I${include} -I${include}/sluice-impl
    ${WORK}/all_headers.cc)

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build
    -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_CXX_COMPILER=${CXX}
    "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
set(programs ${WORK}/build/my_program)
set(cluster_programs)
if(EXISTS ${WORK}/build/cluster_program)
  list(APPEND cluster_programs ${WORK}/build/cluster_program)
endif()

# The same without CMake (nor sanitizers).
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG AND NOT FLAGS)
  set(ENV{PKG_CONFIG_PATH} ${WORK}/moved/lib/pkgconfig)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs sluice
                  OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(options UNIX_COMMAND "${options}")
  run(${CXX} ${SOURCE}/main.cc -o ${WORK}/by_pkg_config ${options}
      -Wl,-rpath,${WORK}/moved/lib)
  list(APPEND programs ${WORK}/by_pkg_config)

  if(cluster_programs)
    execute_process(COMMAND ${PKG_CONFIG} --cflags --libs sluice_cluster
                    OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(options UNIX_COMMAND "${options}")
    run(${CXX} ${SOURCE}/cluster.cc -o ${WORK}/cluster_by_pkg_config ${options}
        -Wl,-rpath,${WORK}/moved/lib)
    list(APPEND cluster_programs ${WORK}/cluster_by_pkg_config)
  endif()

  find_program(CC cc)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs sluice_c
                  OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(options UNIX_COMMAND "${options}")
  foreach(name c_api native_c_api)
    run(${CC} -std=c11 ${SOURCE}/../../examples/${name}.c -o ${WORK}/${name}
        ${options} -Wl,-rpath,${WORK}/moved/lib)
    run(${WORK}/${name})
  endforeach()
endif()

function(check program expected)
  execute_process(COMMAND ${program} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0 OR NOT output STREQUAL expected)
    message(FATAL_ERROR "${program}: expected\n${expected}got ${result},\n"
                        "${output}")
  endif()
endfunction()
foreach(program ${programs})
  check(${program} "float[] 17\nfloat[3] 2 4 6\n")
endforeach()
foreach(program ${cluster_programs})
  check(${program} "float[] 36\n")
endforeach()
if(EXISTS ${WORK}/moved/bin/sluice)
  run(${WORK}/moved/bin/sluice --version)
endif()

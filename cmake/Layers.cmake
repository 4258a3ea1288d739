# sluice_sources(<out> <dir>...): the library's sources in those folders: all
# except tests, fuzzers, benchmarks, generators and what this build leaves out
# (cmake/Options.cmake).
function(sluice_sources out)
  set(found)
  foreach(dir ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cc)
    list(APPEND found ${sources})
  endforeach()
  list(FILTER found EXCLUDE REGEX "_(test|fuzz|benchmark)\\.cc$|/testing/")
  list(FILTER found EXCLUDE REGEX "/gen_[^/]*\\.cc$")
  # (One by one: CMake's expressions have few parentheses.)
  foreach(pattern ${SLUICE_LEFT_OUT})
    list(FILTER found EXCLUDE REGEX "${pattern}")
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# sluice_layer(<folder>): the object library sluice_<folder>, if src/<folder>
# has any source. Objects, not archives: ops register themselves in static
# initializers, which an archive would drop.
function(sluice_layer folder)
  sluice_sources(sources ${CMAKE_SOURCE_DIR}/src/${folder})
  if(NOT sources)
    return()
  endif()
  add_library(sluice_${folder} OBJECT ${sources})
  target_link_libraries(sluice_${folder} PRIVATE
    sluice_flags sluice_openmp ${SLUICE_PUBLIC_LIBS} ${SLUICE_PRIVATE_LIBS})
  if(folder MATCHES "^(exec|ops)$")  # (graph/op_def.h.)
    target_compile_definitions(sluice_${folder} PRIVATE SLUICE_OWN_OPS)
    if(SLUICE_MINIMAL)
      # (Texts and functions of what is dropped are unused.)
      target_compile_options(sluice_${folder} PRIVATE -Wno-unused
        "SHELL:-include ${CMAKE_SOURCE_DIR}/src/ops/common/without_samples.h")
    endif()
  endif()
  # Small, except where the elements are computed.
  if(SLUICE_MINIMAL AND NOT folder STREQUAL "kernels")
    target_compile_options(sluice_${folder} PRIVATE -Os)
  endif()
  # (Files that Highway compiles once per target cannot be in a unity build.)
  if(NOT folder STREQUAL "kernels")
    sluice_unity(sluice_${folder})
  endif()
  # In debug builds, with sanitizers or without, compiling these takes longer than
  # running them. (All except the code of a step; graph/ is where a fuzzer spends
  # its time, and under ThreadSanitizer every small function costs two calls, so
  # what compiles graphs is optimised there.)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND
     (folder MATCHES "^(passes|io|checkpoint|summary|ops|client|inspect|session|train|deploy|capi|cluster)$"
     OR (folder STREQUAL "graph" AND NOT SLUICE_FUZZ))
     AND NOT (SLUICE_SANITIZE STREQUAL "thread"
              AND folder MATCHES "^(graph|passes|session)$"))
    target_compile_options(sluice_${folder} PRIVATE -O0)
  endif()
  # Coverage instrumentation where it guides the fuzzers; elsewhere it only
  # costs time.
  if(SLUICE_FUZZ AND folder MATCHES "^(tensor|graph|passes|exec|cluster)$")
    target_compile_options(sluice_${folder} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(TARGET sluice_proto)
    add_dependencies(sluice_${folder} sluice_proto_headers)
    target_include_directories(sluice_${folder} SYSTEM PRIVATE
      ${SLUICE_PROTO_DIR})
  endif()
endfunction()

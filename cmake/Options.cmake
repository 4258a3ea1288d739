# Compile options of all our targets. Third-party headers are in system folders
# and are not subject to our warnings.
set(SLUICE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(SLUICE_TESTS "Build the tests" ON)
option(SLUICE_EXAMPLES "Build the programs of examples/ (tests run them)" ON)
option(SLUICE_WERROR "Warnings in our own code are errors" ON)
option(SLUICE_FUZZ "Build the fuzzers too (clang)" OFF)
option(SLUICE_MINIMAL "Build only libsluice.a, for small devices: no clusters, \
linear algebra, images or tools (docs/design/051-packages.md)" OFF)
option(SLUICE_ONEDNN "Large products and convolutions by oneDNN; without, by our \
own loops" ON)
if(SLUICE_MINIMAL)
  set(SLUICE_TESTS OFF)
  set(SLUICE_ONEDNN OFF)
endif()
option(SLUICE_REPRODUCIBLE "Names of sources in the binaries are relative, so that \
any checkout makes the same bytes (scripts/package)" OFF)
option(SLUICE_UNITY "Compile some files of a folder as one: a clean build takes \
a third of the time, a change of one file a few times longer" OFF)
set(SLUICE_UNITY_KB 100 CACHE STRING "How much source code, in KiB, a unity build \
compiles as one file")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# A change within a shared library does not link again the programs that use it.
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")

# With the base folder set, two checkouts of the same sources share cache
# entries.
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
      ${SLUICE_CCACHE})
endif()

# What a build leaves out (regular expressions of paths), in whose place
# without_x.cc files stand: callers find that nothing was computed, or get an
# error that names the build.
set(SLUICE_LEFT_OUT)
if(SLUICE_ONEDNN)
  list(APPEND SLUICE_LEFT_OUT "/without_onednn[.]cc$")
else()
  list(APPEND SLUICE_LEFT_OUT
       "/src/kernels/dnn/((gemm|conv|conv_int8)_onednn|matmul_bf16)[.]cc$")
endif()
if(SLUICE_MINIMAL)
  # (Families of ops that no other file calls, except those named here.)
  list(APPEND SLUICE_LEFT_OUT
       "/src/ops/(collectives|image|linalg)/" "/src/kernels/(image|linalg)/"
       "/src/ops/control/py_func[.]cc$"
       "/src/ops/io/(parse_sequence_example|record_input)[.]cc$"
       "/src/ops/math/(fft|special)[.]cc$"
       "/src/ops/nn/(dilation|fractional_pool)[.]cc$"
       "/src/ops/queues/(barrier|staging)[.]cc$" "/src/data/barrier[.]cc$"
       "/src/ops/random/(gamma|skipgram)[.]cc$"
       "/src/ops/readers/reader(_ops|_state)?[.]cc$"
       "/src/ops/sparse/(cross|reduce|serialize)[.]cc$"
       "/src/ops/string/(csv|edit_distance|json|letter_case|regex)[.]cc$"
       "/src/ops/tables/dense_table[.]cc$"
       "/src/graph/graphdef_text[.]cc$" "/src/io/image"
       "/src/session/session_config[.]cc$" "/src/simulate/")
else()
  list(APPEND SLUICE_LEFT_OUT "/(graphdef_without_text|without_(icu|images))[.]cc$")
endif()

# sluice_unity(<target>): enables a unity build of the target if requested, so
# that shared headers are parsed once. The files of each folder are a group, and
# folders of a few files share one, so that a new file changes its own group
# only. A group of more than SLUICE_UNITY_KB is divided, because a changed file
# is compiled with its whole group. (Names in anonymous namespaces must then be
# unique within a layer.)
function(sluice_unity target)
  if(NOT SLUICE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  set(folders)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH dir)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${dir})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND sources_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(groups)
  foreach(folder ${folders})
    list(LENGTH sources_of_${folder} size)
    set(group ${folder})
    if(size LESS 6)
      set(group small_folders)
    endif()
    list(APPEND groups ${group})
    list(APPEND sources_in_${group} ${sources_of_${folder}})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  math(EXPR limit "${SLUICE_UNITY_KB} * 1024")
  foreach(group ${groups})
    # In equal parts, so that the last one is not a few files.
    set(total 0)
    foreach(source ${sources_in_${group}})
      file(SIZE ${source} bytes)
      math(EXPR total "${total} + ${bytes}")
    endforeach()
    math(EXPR parts "${total} / ${limit} + 1")
    set(before 0)
    foreach(source ${sources_in_${group}})
      math(EXPR part "${before} * ${parts} / (${total} + 1)")
      file(SIZE ${source} bytes)
      math(EXPR before "${before} + ${bytes}")
      set_source_files_properties(${source} PROPERTIES
        UNITY_GROUP ${group}_${part})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# sluice_flags: include roots, warnings, sanitizers; linked by all our targets.
add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE
  ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src
  ${CMAKE_BINARY_DIR}/generated)
target_compile_options(sluice_flags INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 has false positives of these in std::string's operator+, in Abseil's
  # InlinedVector, and more under sanitizers.
  target_compile_options(sluice_flags INTERFACE
    -Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds
    -Wno-stringop-overflow -Wno-stringop-overread)
endif()
target_link_options(sluice_flags INTERFACE -Wl,--as-needed)
# Programs with sanitizers are large, and LLVM's linker is several times faster.
find_program(SLUICE_LLD ld.lld-14)
if(SLUICE_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(sluice_flags INTERFACE --ld-path=${SLUICE_LLD})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  # Binds calls within the library locally, so that they can be inlined and do
  # not go through the PLT.
  target_compile_options(sluice_flags INTERFACE -fno-semantic-interposition)
  target_link_options(sluice_flags INTERFACE -Wl,-Bsymbolic-functions)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND SLUICE_UNITY)
  # g++ spent an eighth of the compile time of such large files on garbage
  # collection; with this it starts at 1 GiB.
  target_compile_options(sluice_flags INTERFACE
    --param=ggc-min-heapsize=1048576)
endif()
# __FILE__ is relative to the checkout, so that the cache also knows a test of
# another one.
target_compile_options(sluice_flags INTERFACE
  "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=")
if(SLUICE_REPRODUCIBLE)
  # (ccache takes no notice of the first option; the second tells these objects
  # from those that other builds have put there.)
  target_compile_options(sluice_flags INTERFACE
    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" -DSLUICE_REPRODUCIBLE)
  # The path of the build folder would leave its length, and a build ID, in what is
  # installed.
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
endif()
if(SLUICE_MINIMAL)
  # A program drops what it does not reach (--gc-sections). One instruction set,
  # chosen when this is compiled, needs no code that chooses another.
  target_compile_options(sluice_flags INTERFACE
    -ffunction-sections -fdata-sections)
  target_compile_definitions(sluice_flags INTERFACE HWY_COMPILE_ONLY_STATIC
    SLUICE_FEW_TYPES)
endif()
if(SLUICE_WERROR)
  target_compile_options(sluice_flags INTERFACE -Werror)
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g1)
  # (clang 14 has no macro for this.)
  target_compile_definitions(sluice_flags INTERFACE SLUICE_SANITIZED)
  if(SLUICE_SANITIZE MATCHES "undefined")
    # These three cause half of UBSan's compile time, and AddressSanitizer finds
    # the same errors.
    # Test code itself is not instrumented.
    target_compile_options(sluice_flags INTERFACE
      -fno-sanitize=null,vptr,object-size
      $<$<BOOL:$<TARGET_PROPERTY:SLUICE_IS_TEST>>:-fno-sanitize=undefined>)
  endif()
  # (As in release: the library uses its own copy of a header's inline
  # functions, not a test's.)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE}
    -Wl,-Bsymbolic-functions)
  # Hides ThreadSanitizer from the headers that a file includes.
  set(SLUICE_UNSEEN_TSAN -U__SANITIZE_THREAD__)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(SLUICE_UNSEEN_TSAN -Wno-builtin-macro-redefined
      "-D__has_feature(feature)=0")
  endif()
  # Two of Highway's targets instead of three: the baseline and the most common
  # one. (The target makes no difference to ThreadSanitizer.)
  set(without HWY_AVX3)
  if(SLUICE_SANITIZE MATCHES "thread")
    set(without "(HWY_AVX2|HWY_AVX3)")
  endif()
  target_compile_definitions(sluice_flags INTERFACE
    "HWY_DISABLED_TARGETS=${without}")
endif()

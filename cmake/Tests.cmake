# All src/<folder>/**/x_test.cc of a folder form one program, <folder>_test, and
# one ctest entry, so that hundreds of tests need one link and one start.
# GTEST_FILTER selects single tests.
# Without GoogleTest (`scripts/setup build` does not install it) everything else
# is built.
find_package(GTest)
if(NOT GTest_FOUND)
  message(STATUS "No GoogleTest: the tests are not built")
  return()
endif()
find_package(benchmark)

set(test_environment)
if(SLUICE_SANITIZE MATCHES "thread")
  # libgomp is not instrumented, so its barriers look like races to TSan. The
  # thread limit overrides the code's requests (base/parallel.cc). As in other
  # builds, a failed allocation must be an error of the step and not abort.
  # UCX's hooks of the system's memory calls run after TSan's state is
  # destroyed.
  list(APPEND test_environment OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1:suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp"
    UCX_MEM_EVENTS=n UCX_HANDLE_ERRORS=none)
elseif(SLUICE_SANITIZE)
  list(APPEND test_environment
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1:max_allocation_size_mb=1024"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0")
endif()

function(sluice_test name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${SLUICE_PROTO_DIR})
  target_link_libraries(${name} PRIVATE
    sluice_flags sluice_lib ${SLUICE_PRIVATE_LIBS}
    GTest::gmock GTest::gtest GTest::gtest_main)
  sluice_unity(${name})
  set_target_properties(${name} PROPERTIES SLUICE_IS_TEST ON)
  # The tested code is optimized; the tests themselves are compiled without
  # optimization, to compile fast.
  if(CMAKE_BUILD_TYPE MATCHES "^(Debug|Release)$")
    target_compile_options(${name} PRIVATE -O0)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 ${test_filter}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS fast TIMEOUT 600
    ENVIRONMENT "${test_environment}")
endfunction()

# sluice_divide(<test> <n>): n entries, each of which runs every n-th case of the
# program: the first has its name, and the others <test>_2, <test>_3, ...
function(sluice_divide name parts)
  get_test_property(${name} LABELS labels)
  foreach(part RANGE 1 ${parts})
    set(entry ${name})
    if(part GREATER 1)
      set(entry ${name}_${part})
      add_test(NAME ${entry} COMMAND ${name} --gtest_brief=1 ${test_filter}
               WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    endif()
    math(EXPR shard "${part} - 1")
    set_tests_properties(${entry} PROPERTIES
      LABELS "${labels}" TIMEOUT 600 COST 100 ENVIRONMENT
      "${test_environment};GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# Under ThreadSanitizer, tests that start no thread are useless: a step runs on its
# caller's thread, unless the session has devices or threads (of `inter_op_threads`)
# or kernels complete elsewhere. So it has neither the folders below, nor the files
# and cases of client and session that create none, as counted in pthread_create.
set(tested_layers ${SLUICE_CORE_LAYERS} ${SLUICE_UPPER_LAYERS} ${SLUICE_C_LAYERS})
if(TARGET sluice_cluster_lib)
  list(APPEND tested_layers ${SLUICE_CLUSTER_LAYERS})
endif()
if(SLUICE_SANITIZE MATCHES "thread")
  list(REMOVE_ITEM tested_layers graph passes kernels ops)
endif()
# The programs of the folders' tests, without those of the command, the examples and
# the Python client: what `scripts/test --fast` builds, and runs by the label `unit`.
add_custom_target(unit_tests)
set(single_threaded_client FunctionGradientTest.*
  Seeds/RandomConstruct.ValuesAndGradientsMatchPlainCode/*
  Seeds/RandomProgram.RecursiveProgramsMatchPlainCode/*
  Seeds/RandomProgram.ValuesAndGradientsMatchPlainCode/*)
set(single_threaded_session EmulatedDeviceTest.* BatchingTest.OpenCallsAreBounded
  BatchingTest.PartsAndRows BatchingTest.*RecursiveTrees)
foreach(folder ${tested_layers})
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/src/${folder}/*_test.cc)
  set(test_filter)
  if(SLUICE_SANITIZE MATCHES "thread" AND folder STREQUAL "client")
    list(FILTER tests INCLUDE REGEX "(random|leak|functions|tensor_store)_test\\.cc$")
    list(JOIN single_threaded_client ":" test_filter)
    set(test_filter "--gtest_filter=-${test_filter}")
  elseif(SLUICE_SANITIZE MATCHES "thread" AND folder STREQUAL "session")
    list(FILTER tests EXCLUDE REGEX "(chains|fusion|malformed_loops)_test\\.cc$")
    list(JOIN single_threaded_session ":" test_filter)
    set(test_filter "--gtest_filter=-${test_filter}")
  endif()
  if(tests)
    # What tests share beyond headers (src/<folder>/**/testing/*.cc).
    file(GLOB_RECURSE test_helpers CONFIGURE_DEPENDS
         ${CMAKE_SOURCE_DIR}/src/${folder}/*.cc)
    list(FILTER test_helpers INCLUDE REGEX "/testing/")
    list(FILTER test_helpers EXCLUDE REGEX "_(test|fuzz|benchmark)\\.cc$")
    sluice_test(${folder}_test ${tests} ${test_helpers})
    set_tests_properties(${folder}_test PROPERTIES LABELS "fast;unit")
    add_dependencies(unit_tests ${folder}_test)
    # (One entry would take longer than half of its tier.)
    if(folder MATCHES "^(client|session)$")
      sluice_divide(${folder}_test 3)
    elseif(folder STREQUAL "ops")
      sluice_divide(ops_test 2)
    endif()
    if(folder STREQUAL "kernels" AND NOT SLUICE_SANITIZE)
      add_test(NAME kernels_test_least COMMAND kernels_test --gtest_brief=1)
      set_tests_properties(kernels_test_least PROPERTIES LABELS fast TIMEOUT 600
        ENVIRONMENT SLUICE_LEAST_TARGET=1)
    endif()
    if(folder STREQUAL "capi")
      # (Some tests are C, as their users' programs are.)
      set(c_programs ${CMAKE_SOURCE_DIR}/src/capi/testing/c11_program.c
          ${CMAKE_SOURCE_DIR}/src/capi/testing/native_program.c)
      set_source_files_properties(${c_programs} PROPERTIES
        COMPILE_OPTIONS "-std=c11;-pedantic")
      target_sources(capi_test PRIVATE ${c_programs})
      target_link_libraries(capi_test PRIVATE sluice_c_lib)
      # Op libraries in C, which a test loads.
      add_library(broken_op_library MODULE
        ${CMAKE_SOURCE_DIR}/src/capi/testing/broken_op_library.c)
      add_library(op_in_c MODULE ${CMAKE_SOURCE_DIR}/examples/custom_op_in_c.c)
      foreach(library broken_op_library op_in_c)
        set_target_properties(${library} PROPERTIES PREFIX "" C_STANDARD 11
          C_EXTENSIONS OFF)
        target_link_libraries(${library} PRIVATE sluice_c_lib)
        add_dependencies(capi_test ${library})
      endforeach()
      target_compile_definitions(capi_test PRIVATE
        SLUICE_OP_IN_C="$<TARGET_FILE:op_in_c>"
        SLUICE_BROKEN_OP_LIBRARY="$<TARGET_FILE:broken_op_library>")
    endif()
    if(folder STREQUAL "cluster")
      target_link_libraries(cluster_test PRIVATE sluice_cluster_lib sluice_grpc)
      # They mostly wait for leases and timeouts, so they run in parallel.
      sluice_divide(cluster_test 6)
    endif()
    # They include protobuf's headers (see src/CMakeLists.txt).
    if(SLUICE_SANITIZE MATCHES "thread" AND
       folder MATCHES "^(checkpoint|summary|train|cluster|capi)$")
      target_compile_options(${folder}_test PRIVATE ${SLUICE_UNSEEN_TSAN})
    endif()
  endif()
  # src/**/x_benchmark.cc: built by name (`ninja exec_benchmark`).
  file(GLOB_RECURSE benchmarks CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/src/${folder}/*_benchmark.cc)
  if(benchmarks AND benchmark_FOUND)
    add_executable(${folder}_benchmark EXCLUDE_FROM_ALL ${benchmarks})
    target_link_libraries(${folder}_benchmark PRIVATE
      sluice_flags sluice_lib benchmark::benchmark_main)
    if(folder STREQUAL "cluster")
      target_link_libraries(cluster_benchmark PRIVATE sluice_cluster_lib)
    endif()
  endif()
endforeach()

# src/**/x_fuzz.cc: libFuzzer programs, bin/x_fuzz each.
if(SLUICE_FUZZ)
  file(GLOB_RECURSE fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*_fuzz.cc)
  if(NOT TARGET sluice_cluster_lib)
    list(FILTER fuzzers EXCLUDE REGEX "/src/cluster/")
  endif()
  foreach(source ${fuzzers})
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_include_directories(${name} SYSTEM PRIVATE ${SLUICE_PROTO_DIR})
    target_link_libraries(${name} PRIVATE
      sluice_flags sluice_lib ${SLUICE_PRIVATE_LIBS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    if(source MATCHES "/src/cluster/")
      target_link_libraries(${name} PRIVATE sluice_cluster_lib)
    endif()
    if(source MATCHES "/src/capi/")
      target_link_libraries(${name} PRIVATE sluice_c_lib)
    endif()
  endforeach()
endif()

# Tests of whole graphs (tests/) and of the command (tools/sluice, bench/).
file(GLOB whole_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*_test.cc)
if(whole_tests)
  sluice_test(whole_test ${whole_tests})
endif()
file(GLOB tool_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/sluice/*_test.cc
     ${CMAKE_SOURCE_DIR}/bench/*_test.cc)
if(SLUICE_SANITIZE)  # (bench/ is not built: tools/CMakeLists.txt.)
  list(FILTER tool_tests EXCLUDE REGEX "/bench/")
endif()
if(tool_tests AND TARGET sluice_tool)
  sluice_test(tool_test ${tool_tests})
  target_link_libraries(tool_test PRIVATE sluice_tool)
  add_dependencies(tool_test sluice)  # (Some run the program itself.)
  # (The networks are small: spinning threads would take cores from tests that
  # run in parallel.)
  set_property(TEST tool_test APPEND PROPERTY ENVIRONMENT
    OMP_WAIT_POLICY=passive)
endif()

# The board; its page in a browser, if there is one.
if(TARGET sluice_board)
  file(GLOB board_tests CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/tools/board/*_test.cc
       ${CMAKE_SOURCE_DIR}/tools/board/testing/*.cc)
  sluice_test(board_test ${board_tests})
  target_link_libraries(board_test PRIVATE
    $<TARGET_OBJECTS:sluice_board> sluice_httplib)
  if(SLUICE_SANITIZE MATCHES "thread")
    target_compile_options(board_test PRIVATE ${SLUICE_UNSEEN_TSAN})
  endif()
  if(TARGET sluice_ops_header)
    add_dependencies(board_test sluice_ops_header)
  endif()
endif()

# Compiles and runs the examples of the headers and pages. (They repeat parts of
# the tests above, so sanitizers would find nothing new.)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND NOT SLUICE_SANITIZE)
  set(snippets ${CMAKE_BINARY_DIR}/generated_snippets)
  set(snippets_stamp ${snippets}/stamp)
  file(GLOB snippet_tests CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/tests/snippets/*_test.cc)
  file(GLOB_RECURSE snippet_sources CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/include/*.h ${CMAKE_SOURCE_DIR}/src/*.h
       ${CMAKE_SOURCE_DIR}/docs/*.md)
  add_custom_command(
    OUTPUT ${snippets_stamp}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/doc_blocks.py
            --write ${snippets}/snippets
            --generated ${CMAKE_BINARY_DIR}/generated
    COMMAND ${CMAKE_COMMAND} -E touch ${snippets_stamp}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/doc_blocks.py ${snippet_sources}
            ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CONTRIBUTING.md
            ${snippet_tests} sluice_ops_header
    COMMENT "Taking the examples from the documentation")
  add_custom_target(documented_snippets DEPENDS ${snippets_stamp})
  if(NOT TARGET sluice_cluster_lib)
    list(FILTER snippet_tests EXCLUDE REGEX "/cluster_")
  endif()
  sluice_test(snippets_test ${snippet_tests})
  add_dependencies(snippets_test documented_snippets custom_op custom_op_in_c)
  target_compile_definitions(snippets_test PRIVATE
    SLUICE_OP_IN_C="$<TARGET_FILE:custom_op_in_c>")
  target_include_directories(snippets_test PRIVATE ${snippets})
  # (Examples may have unused variables.)
  target_compile_options(snippets_test PRIVATE
    -Wno-unused-variable -Wno-unused-but-set-variable)
  if(TARGET sluice_cluster_lib)
    target_link_libraries(snippets_test PRIVATE sluice_cluster_lib)
  endif()
endif()

# Recorded cases, each with TensorFlow's results.
if(TARGET sluice)
  add_test(NAME replay_cases
    COMMAND sluice replay --quiet ${CMAKE_SOURCE_DIR}/tests/cases)
  set_tests_properties(replay_cases PROPERTIES LABELS fast TIMEOUT 600
    ENVIRONMENT "${test_environment}")
endif()

# Runs the examples to their end (not under sanitizers, where they take
# minutes). The output of those of clusters and of changing structure, and of
# scripts/demo-cluster, is checked.
if(NOT SLUICE_SANITIZE)
  set(cluster_examples)
  if(TARGET sluice_cluster_lib)
    set(cluster_examples cluster_all_reduce cluster_async_sgd cluster_experts
      cluster_training_loops model_parallel_lstm)
    sluice_test(cluster_examples_test
      ${CMAKE_SOURCE_DIR}/tests/examples/cluster_examples_test.cc)
    foreach(name ${cluster_examples})
      add_dependencies(cluster_examples_test example_${name})
    endforeach()
    add_dependencies(cluster_examples_test sluice)
    set_property(TEST cluster_examples_test APPEND PROPERTY ENVIRONMENT
      OMP_WAIT_POLICY=passive)
  endif()
  set(structure_examples adaptive_computation beam_search game_tree graph_lstm
    tree_lstm)
  sluice_test(structure_examples_test
    ${CMAKE_SOURCE_DIR}/tests/examples/structure_examples_test.cc)
  foreach(name ${structure_examples})
    add_dependencies(structure_examples_test example_${name})
  endforeach()
  set_property(TEST structure_examples_test APPEND PROPERTY ENVIRONMENT
    OMP_WAIT_POLICY=passive)
  set(arguments_of_transfer_learning
    ${CMAKE_SOURCE_DIR}/examples/checkpoints/shapes)
  file(GLOB examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.cc)
  foreach(source ${examples})
    cmake_path(GET source STEM name)
    if(NOT TARGET example_${name} OR name IN_LIST cluster_examples OR
       name IN_LIST structure_examples)
      continue()
    endif()
    add_test(NAME example_${name} COMMAND example_${name} ${arguments_of_${name}}
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    # (Spinning threads would take cores from tests that run in parallel.)
    set_tests_properties(example_${name} PROPERTIES LABELS fast TIMEOUT 300
      ENVIRONMENT "OMP_WAIT_POLICY=passive")
  endforeach()
endif()

# The longest first, because after a clean build ctest does not know the
# durations, and one that starts last delays the end. (Some are long only under
# sanitizers. Those that are divided are first.)
foreach(name tool_test data_test exec_test kernels_test kernels_test_least
        checkpoint_test train_test capi_test whole_test board_test
        cluster_examples_test structure_examples_test)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 50)
  endif()
endforeach()

# The C API in other languages, and its ABI, where their tools are
# (scripts/setup bindings). The sources of TensorFlow's Go binding are given:
# -DSLUICE_TENSORFLOW_SOURCES=PATH.
if(TARGET example_native_c_api)
  add_test(NAME example_native_c_api COMMAND example_native_c_api)
  set_tests_properties(example_native_c_api PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "^y = 2.00 x \\+ 1.00\n$")
endif()
if(TARGET example_c_api_rust)
  add_test(NAME example_c_api_rust
    COMMAND ${CMAKE_BINARY_DIR}/bin/example_c_api_rust 7)
  set_tests_properties(example_c_api_rust PROPERTIES LABELS fast
    PASS_REGULAR_EXPRESSION "^49\n$")
endif()
find_program(SLUICE_ABIDIFF abidiff)
if(SLUICE_ABIDIFF AND NOT SLUICE_SANITIZE)
  add_test(NAME abi_of_c_api COMMAND ${CMAKE_SOURCE_DIR}/scripts/abi)
  set_tests_properties(abi_of_c_api PROPERTIES LABELS "fast;house"
    ENVIRONMENT SLUICE_BUILD=${CMAKE_BINARY_DIR})
endif()
set(SLUICE_TENSORFLOW_SOURCES "" CACHE PATH
  "A checkout of TensorFlow, whose Go binding is tested against libsluice_c")
if(SLUICE_TENSORFLOW_SOURCES)
  add_test(NAME go_binding COMMAND ${CMAKE_SOURCE_DIR}/scripts/test-go
    ${SLUICE_TENSORFLOW_SOURCES} ${CMAKE_BINARY_DIR})
  set_tests_properties(go_binding PROPERTIES TIMEOUT 600)
endif()

# The installed package, used from another project.
set(package_flags)
if(SLUICE_SANITIZE)
  set(package_flags -fsanitize=${SLUICE_SANITIZE})
endif()
add_test(NAME package COMMAND ${CMAKE_COMMAND}
  -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${CMAKE_SOURCE_DIR}/tests/package
  -DWORK=${CMAKE_BINARY_DIR}/package_test -DGENERATOR=${CMAKE_GENERATOR}
  -DCXX=${CMAKE_CXX_COMPILER} -DFLAGS=${package_flags}
  -P ${CMAKE_SOURCE_DIR}/tests/package/run.cmake)
set_tests_properties(package PROPERTIES LABELS house TIMEOUT 300)

# Rules that a compiler does not check, and code that it must reject.
if(Python3_Interpreter_FOUND)
  add_test(NAME misuse COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_SOURCE_DIR}/tools/check_misuse.py ${CMAKE_CXX_COMPILER} -std=c++20
    -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src
    -I${CMAKE_BINARY_DIR}/generated)
  set_tests_properties(misuse PROPERTIES LABELS "fast;house;unit")
  # Each has its own test.
  foreach(check check_layers check_docs check_interface check_container doc_blocks
      api_reference)
    add_test(NAME ${check} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/tools/${check}.py)
    add_test(NAME ${check}_test COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/tools/${check}_test.py)
    set_tests_properties(${check} ${check}_test PROPERTIES
      LABELS "fast;house;unit")
  endforeach()
  add_test(NAME docs_site_test COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_SOURCE_DIR}/tools/docs_site_test.py)
  set_tests_properties(docs_site_test PROPERTIES LABELS "fast;house;unit")
  find_program(SLUICE_DPKG dpkg-query)
  if(SLUICE_DPKG)
    add_test(NAME sbom_test COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/tools/sbom_test.py)
    set_tests_properties(sbom_test PROPERTIES LABELS house)
  endif()
  if(TARGET sluice AND TARGET sluice_cluster_lib AND NOT SLUICE_SANITIZE)
    add_test(NAME documented_commands COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_SOURCE_DIR}/tests/snippets/shell_test.py $<TARGET_FILE:sluice>)
    set_tests_properties(documented_commands PROPERTIES LABELS fast TIMEOUT 600)
  endif()
endif()

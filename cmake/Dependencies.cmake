# All dependencies are Debian 12 packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(hwy REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
if(NOT SLUICE_MINIMAL)
  find_package(PNG REQUIRED)
  find_package(JPEG REQUIRED)
  find_package(GIF REQUIRED)
  find_package(ICU REQUIRED COMPONENTS uc)
  # Header-only, included by src/kernels/linalg.
  find_path(SLUICE_EIGEN_INCLUDE Eigen/Core PATH_SUFFIXES eigen3 REQUIRED)
endif()
find_package(leveldb REQUIRED)
find_package(Snappy REQUIRED)
# (Debian 12 has no CMake configuration for these.)
find_library(SLUICE_FARMHASH_LIBRARY farmhash REQUIRED)
if(NOT SLUICE_MINIMAL)
  find_library(SLUICE_RE2_LIBRARY re2 REQUIRED)
endif()
# The small build uses protobuf's lite runtime: messages without names of fields,
# thus without their text and JSON.
set(SLUICE_PROTOBUF protobuf::libprotobuf)
if(SLUICE_MINIMAL)
  set(SLUICE_PROTOBUF protobuf::libprotobuf-lite)
endif()

# oneDNN is found by hand: Debian's dnnl-config.cmake also requires the OpenCL
# headers, which only the GPU interface needs.
add_library(sluice_dnnl INTERFACE)
if(SLUICE_ONEDNN)
  find_path(SLUICE_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
  find_library(SLUICE_DNNL_LIBRARY dnnl REQUIRED)
  target_include_directories(sluice_dnnl SYSTEM INTERFACE
    ${SLUICE_DNNL_INCLUDE})
  target_link_libraries(sluice_dnnl INTERFACE ${SLUICE_DNNL_LIBRARY})
endif()

# Abseil is used in the public headers, so users of the package link it too.
set(SLUICE_PUBLIC_LIBS
  absl::status absl::statusor absl::strings absl::str_format absl::span
  absl::flat_hash_map absl::flat_hash_set absl::btree absl::inlined_vector
  absl::hash absl::function_ref absl::any_invocable absl::cleanup
  absl::synchronization absl::time absl::int128 absl::numeric absl::bits
  absl::fixed_array absl::algorithm_container Threads::Threads)
set(SLUICE_PRIVATE_LIBS ${SLUICE_PROTOBUF} hwy::hwy
  nlohmann_json::nlohmann_json ZLIB::ZLIB $<LINK_ONLY:leveldb::leveldb> Snappy::snappy
  ${SLUICE_FARMHASH_LIBRARY}
  $<BUILD_INTERFACE:sluice_dnnl>)
if(SLUICE_MINIMAL)
  # What a program links besides libsluice.a, statically. Debian's packages
  # describe their shared libraries, so the archives are named here; Abseil's, of
  # which there are many, are those that its targets stand for.
  set(archives protobuf-lite leveldb snappy farmhash z)
  set(pending ${SLUICE_PUBLIC_LIBS})
  list(FILTER pending INCLUDE REGEX "^absl::")
  set(seen)
  while(pending)
    list(POP_FRONT pending library)
    if(library IN_LIST seen OR NOT TARGET ${library})
      continue()
    endif()
    list(APPEND seen ${library})
    get_target_property(type ${library} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      string(REPLACE "::" "_" archive ${library})
      list(APPEND archives ${archive})
    endif()
    get_target_property(needs ${library} INTERFACE_LINK_LIBRARIES)
    list(FILTER needs INCLUDE REGEX "^absl::")
    list(APPEND pending ${needs})
  endwhile()
  list(TRANSFORM archives REPLACE "(.+)" "-l:lib\\1.a")
  list(JOIN archives " " archives)
  set(SLUICE_STATIC_LIBS
    "-Wl,--start-group ${archives} -Wl,--end-group -Wl,--gc-sections -fopenmp -pthread -ldl")
else()
  list(APPEND SLUICE_PRIVATE_LIBS PNG::PNG JPEG::JPEG GIF::GIF ICU::uc
       ${SLUICE_RE2_LIBRARY})
endif()

# base/parallel.cc uses the same OpenMP thread team as oneDNN.
add_library(sluice_openmp INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang 14 without libomp: pragmas are ignored (so there is one thread), and
  # the query functions come from g++'s runtime.
  execute_process(COMMAND g++ -print-file-name=libgomp.so
    OUTPUT_VARIABLE libgomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  target_link_libraries(sluice_openmp INTERFACE ${libgomp})
  target_include_directories(sluice_openmp SYSTEM INTERFACE
    ${CMAKE_SOURCE_DIR}/cmake/openmp_stand_in)
  target_compile_options(sluice_openmp INTERFACE -Wno-unknown-pragmas)
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(sluice_openmp INTERFACE OpenMP::OpenMP_CXX)
endif()

# For src/cluster, also by hand: gRPC's own configuration requires the headers of
# all its dependencies. Without gRPC there are no clusters; without UCX they
# send tokens only over gRPC.
find_path(SLUICE_GRPC_INCLUDE grpcpp/grpcpp.h)
find_library(SLUICE_GRPCPP_LIBRARY grpc++)
find_library(SLUICE_GRPC_LIBRARY grpc)
find_library(SLUICE_GPR_LIBRARY gpr)
find_program(SLUICE_GRPC_PLUGIN grpc_cpp_plugin)
set(SLUICE_GRPC OFF)
if(SLUICE_MINIMAL)
elseif(SLUICE_GRPC_INCLUDE AND SLUICE_GRPCPP_LIBRARY AND SLUICE_GRPC_LIBRARY AND
   SLUICE_GPR_LIBRARY AND SLUICE_GRPC_PLUGIN)
  set(SLUICE_GRPC ON)
  add_library(sluice_grpc INTERFACE)
  target_include_directories(sluice_grpc SYSTEM INTERFACE
    ${SLUICE_GRPC_INCLUDE})
  target_link_libraries(sluice_grpc INTERFACE ${SLUICE_GRPCPP_LIBRARY}
    ${SLUICE_GRPC_LIBRARY} ${SLUICE_GPR_LIBRARY})
else()
  message(STATUS "No gRPC (libgrpc++-dev, protobuf-compiler-grpc): "
    "libsluice_cluster and `sluice worker` are not built")
endif()
find_path(SLUICE_UCX_INCLUDE ucp/api/ucp.h)
find_library(SLUICE_UCP_LIBRARY ucp)
find_library(SLUICE_UCS_LIBRARY ucs)
set(SLUICE_UCX OFF)
if(SLUICE_UCX_INCLUDE AND SLUICE_UCP_LIBRARY AND SLUICE_UCS_LIBRARY)
  set(SLUICE_UCX ON)
  add_library(sluice_ucx INTERFACE)
  target_include_directories(sluice_ucx SYSTEM INTERFACE ${SLUICE_UCX_INCLUDE})
  target_link_libraries(sluice_ucx INTERFACE ${SLUICE_UCP_LIBRARY}
    ${SLUICE_UCS_LIBRARY})
elseif(SLUICE_GRPC)
  message(STATUS "No UCX (libucx-dev): tokens between tasks travel by gRPC")
endif()

# HTTP, for `sluice board` and the metrics of tasks: Debian's libcpp-httplib-dev,
# whose library was compiled with the definitions below.
find_path(SLUICE_HTTPLIB_INCLUDE httplib.h)
find_library(SLUICE_HTTPLIB_LIBRARY cpp-httplib)
find_path(SLUICE_OPENSSL_INCLUDE openssl/ssl.h)
if(SLUICE_MINIMAL)
elseif(SLUICE_HTTPLIB_INCLUDE AND SLUICE_HTTPLIB_LIBRARY AND SLUICE_OPENSSL_INCLUDE)
  add_library(sluice_httplib INTERFACE)
  target_include_directories(sluice_httplib SYSTEM INTERFACE
    ${SLUICE_HTTPLIB_INCLUDE})
  target_compile_definitions(sluice_httplib INTERFACE
    CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
    CPPHTTPLIB_BROTLI_SUPPORT)
  target_link_libraries(sluice_httplib INTERFACE ${SLUICE_HTTPLIB_LIBRARY})
else()
  message(STATUS "No httplib.h (libcpp-httplib-dev): `sluice board` and "
    "`sluice worker --metrics` are not built")
endif()

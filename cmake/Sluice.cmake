# Build rules shared by the project's folders.

# Precompiled headers. One of the usual MLIR headers serves every compiler library: a translation unit then takes
# 1.5 s instead of 5.7 s. One with NVVM serves the generators for GPUs (1.2 s instead of 15.6 s), and one of CLI11 and
# nlohmann/json serves what sees no MLIR.
function(sluice_precompiled_header name header)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
  target_precompile_headers(${name} PRIVATE ${header})
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()
sluice_precompiled_header(sluice_pch_gpu ${CMAKE_SOURCE_DIR}/cmake/pch_gpu.h -fno-rtti)
sluice_precompiled_header(sluice_pch ${CMAKE_SOURCE_DIR}/cmake/pch.h -fno-rtti)
sluice_precompiled_header(sluice_pch_plain ${CMAKE_SOURCE_DIR}/cmake/pch_plain.h)

# sluice_plain_headers(TARGET): for libraries and programs that see no MLIR.
function(sluice_plain_headers target)
  # The header was compiled with -fPIC; CMake would say -fPIE for a program, which clang refuses to mix.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM sluice_pch_plain)
endfunction()

# sluice_test_headers(TARGET): for tests that see no MLIR and compute little themselves. With GoogleTest in the precompiled
# header and without optimization they are compiled in half the time.
if(SLUICE_EVERYTHING)
  sluice_precompiled_header(sluice_pch_test ${CMAKE_SOURCE_DIR}/cmake/pch_test.h -O0 -fpch-instantiate-templates)
  target_link_libraries(sluice_pch_test PRIVATE GTest::gtest) # for its definitions
endif()
function(sluice_test_headers target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC -O0 -fpch-instantiate-templates)
  target_precompile_headers(${target} REUSE_FROM sluice_pch_test)
endfunction()

# sluice_compiler_library(NAME SOURCES... [HEADERS PRECOMPILED] [DEPENDS TARGETS...] [LINK LIBRARIES...])
# A static library that uses MLIR. Programs link libMLIR.so and libLLVM.so and nothing else of the two.
function(sluice_compiler_library name)
  cmake_parse_arguments(ARG "" "HEADERS" "DEPENDS;LINK" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS sluice_pch)
  endif()
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  target_compile_options(${name} PRIVATE -fno-rtti)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} sluice_tablegen ${ARG_DEPENDS})
endfunction()

# sluice_compiler_program(NAME SOURCES... [HEADERS PRECOMPILED] [LINK LIBRARIES...])
function(sluice_compiler_program name)
  cmake_parse_arguments(ARG "" "HEADERS" "LINK" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS sluice_pch)
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  # The header was compiled with -fPIC; CMake would say -fPIE for a program, which clang refuses to mix.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  target_compile_options(${name} PRIVATE -fno-rtti -fPIC)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ${SLUICE_ALLOCATOR} MLIR LLVM)
  add_dependencies(${name} sluice_tablegen)
endfunction()

# sluice_compiler_test(NAME SOURCES... [LINK LIBRARIES...])
# A program of GoogleTest that uses MLIR. With the dialects and GoogleTest in the precompiled header and without optimization
# it is compiled in less than half the time; what computes much is in libraries.
if(SLUICE_EVERYTHING)
  sluice_precompiled_header(sluice_pch_compiler_test ${CMAKE_SOURCE_DIR}/cmake/pch_compiler_test.h
    -fno-rtti -O0 -fpch-instantiate-templates)
  target_link_libraries(sluice_pch_compiler_test PRIVATE GTest::gtest) # for its definitions
  add_dependencies(sluice_pch_compiler_test sluice_tablegen)
endif()
function(sluice_compiler_test name)
  sluice_compiler_program(${name} HEADERS sluice_pch_compiler_test ${ARGN})
  target_compile_options(${name} PRIVATE -O0 -fpch-instantiate-templates)
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main)
endfunction()

# Build rules shared by the project's folders.

# One precompiled header of the usual MLIR headers serves every compiler library: a translation unit then
# takes 1.5 s instead of 5.7 s.
add_library(sluice_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(sluice_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
target_compile_options(sluice_pch PRIVATE -fno-rtti)

# sluice_compiler_library(NAME SOURCES... [DEPENDS TARGETS...] [LINK LIBRARIES...])
# A static library that uses MLIR. Programs link libMLIR.so and libLLVM.so and nothing else of the two.
function(sluice_compiler_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} REUSE_FROM sluice_pch)
  target_compile_options(${name} PRIVATE -fno-rtti)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} sluice_tablegen ${ARG_DEPENDS})
endfunction()

# sluice_compiler_program(NAME SOURCES... [LINK LIBRARIES...])
function(sluice_compiler_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  # The header was compiled with -fPIC; CMake would say -fPIE for a program, which clang refuses to mix.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${name} REUSE_FROM sluice_pch)
  target_compile_options(${name} PRIVATE -fno-rtti -fPIC)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} sluice_tablegen)
endfunction()

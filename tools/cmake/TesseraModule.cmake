# SPDX-License-Identifier: BSD-3-Clause
# Modules are object libraries; libtessera and the executable are made of their objects.

add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
target_compile_options(tessera_options INTERFACE -Wall -Wextra -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string's insert and operator+ where there are none.
  target_compile_options(tessera_options INTERFACE -Wno-restrict)
endif()
if(TESSERA_WERROR)
  target_compile_options(tessera_options INTERFACE -Werror)
endif()
if(TESSERA_SANITIZE)
  # Only what is tested is instrumented. The tests themselves (TESSERA_PLAIN) are compiled just as in
  # the preset `test`: half of the build's time, which ccache saves when that preset was built before.
  set(plain "$<BOOL:$<TARGET_PROPERTY:TESSERA_PLAIN>>")
  set(checks -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  foreach(flag IN LISTS checks)
    target_compile_options(tessera_options INTERFACE $<$<NOT:${plain}>:${flag}>)
  endforeach()
  target_compile_options(tessera_options INTERFACE $<${plain}:-Werror>)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# The standard headers that most files include, and Kokkos: reading them took most of the time of a
# clean build. One precompiled set for each kind of flags (cold: -O1, hot: -O3, device: with Kokkos,
# test: with Catch2).
set(TESSERA_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits>
    <map> <memory> <numeric> <optional> <set> <span> <string> <string_view> <utility> <vector>)
function(tessera_precompile target kind)
  if(NOT TESSERA_PCH OR (kind STREQUAL "device" AND "CUDA" IN_LIST Kokkos_DEVICES))
    return()  # nvcc reads none
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # For ccache, which else doesn't see that a source includes precompiled headers.
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  get_property(owner GLOBAL PROPERTY TESSERA_PCH_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  set(headers ${TESSERA_STANDARD_HEADERS})
  if(kind MATCHES "cold|test")  # what talks to files, people and other threads
    list(APPEND headers <chrono> <condition_variable> <filesystem> <fstream> <iostream> <mutex>
         <sstream> <thread> <unordered_map> <variant>)
  endif()
  if(kind STREQUAL "device")
    list(APPEND headers <Kokkos_Core.hpp>)
  elseif(kind STREQUAL "test")
    list(APPEND headers <random> <support/catch.hpp>)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
  set_property(GLOBAL PROPERTY TESSERA_PCH_${kind} ${target})
endfunction()

# Compiles the sources of a target in batches. What templates of the standard library and our own
# headers cost is paid once for each batch.
function(tessera_unite target)
  if(NOT TESSERA_UNITY)
    return()
  endif()
  set(batch 8)
  if(TESSERA_SANITIZE)
    set(batch 16)  # each template is instrumented, too
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes all but the batch itself for headers, in which the private struct of a class must not
    # have members of an unnamed namespace's types.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# tessera_add_module(NAME SOURCES a.cpp … [LIBRARIES tessera_mpi …] [ISA_SOURCES isa/x.cpp …]
#                    [DEVICE_SOURCES x_portable.cpp …])
# ISA_SOURCES are compiled once for each x86-64 level with TESSERA_ISA=v2|v3|v4 (generic elsewhere);
# DEVICE_SOURCES with Kokkos, so that nvcc gets only these where Kokkos has a Cuda backend.
function(tessera_add_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;ISA_SOURCES;DEVICE_SOURCES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tessera_add_module(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target tessera_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE tessera_options ${arg_LIBRARIES})
  tessera_unite(${target})
  if(NOT name IN_LIST TESSERA_HOT_MODULES)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    tessera_precompile(${target} cold)
  else()
    tessera_precompile(${target} hot)
  endif()
  set(objects $<TARGET_OBJECTS:${target}>)
  if(arg_DEVICE_SOURCES)
    add_library(${target}_device OBJECT ${arg_DEVICE_SOURCES})
    target_link_libraries(${target}_device PRIVATE tessera_options tessera_kokkos)
    tessera_precompile(${target}_device device)
    if(NOT "CUDA" IN_LIST Kokkos_DEVICES)
      tessera_unite(${target}_device)  # nvcc takes minutes for a batch
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${target}_device>)
    list(APPEND arg_LIBRARIES tessera_kokkos)
  endif()
  if(arg_ISA_SOURCES)
    set(levels generic)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set(levels v2 v3 v4)
    endif()
    foreach(level IN LISTS levels)
      add_library(${target}_${level} OBJECT ${arg_ISA_SOURCES})
      target_link_libraries(${target}_${level} PRIVATE tessera_options)
      target_compile_definitions(${target}_${level} PRIVATE TESSERA_ISA=${level})
      target_compile_options(${target}_${level} PRIVATE -ffp-contract=fast)
      if(NOT TESSERA_SANITIZE)
        target_compile_options(${target}_${level} PRIVATE -O3)
      endif()
      if(NOT level STREQUAL "generic")
        target_compile_options(${target}_${level} PRIVATE -march=x86-64-${level} -mprefer-vector-width=512)
      endif()
      list(APPEND objects $<TARGET_OBJECTS:${target}_${level}>)
    endforeach()
  endif()
  set_property(GLOBAL APPEND PROPERTY TESSERA_OBJECTS ${objects})
  set_property(GLOBAL APPEND PROPERTY TESSERA_LIBRARIES ${arg_LIBRARIES})
endfunction()

# One static library of all modules. Who links it gets the public headers and the libraries, but not
# our warnings.
function(tessera_add_library)
  get_property(objects GLOBAL PROPERTY TESSERA_OBJECTS)
  get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES)
  if(NOT objects)
    return()
  endif()
  list(REMOVE_DUPLICATES libraries)
  add_library(tessera_lib STATIC ${objects})
  add_library(Tessera::tessera ALIAS tessera_lib)
  set_target_properties(tessera_lib PROPERTIES OUTPUT_NAME tessera EXPORT_NAME tessera
                                               LINKER_LANGUAGE CXX)
  target_compile_features(tessera_lib PUBLIC cxx_std_20)
  target_link_libraries(tessera_lib PUBLIC $<BUILD_INTERFACE:tessera_options> ${libraries}
                                           Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

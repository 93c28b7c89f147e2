# SPDX-License-Identifier: BSD-3-Clause
# Every library that Tessera links, each as one target, so that no module repeats a repair.
# The installed package reads this file too; there a failure must not stop the project that asks.
cmake_policy(PUSH)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own package instead of CMake's retired FindBoost
endif()

# tessera_require(PACKAGE "what to install" args of find_package …)
macro(tessera_require package cure)
  if(NOT TESSERA_MISSING)
    find_package(${package} ${ARGN})
    if(NOT ${package}_FOUND)
      set(TESSERA_MISSING "Tessera needs ${package}: ${cure}")
    endif()
  endif()
endmacro()

unset(TESSERA_MISSING)
set(HDF5_PREFER_PARALLEL ON)
set(BLA_VENDOR OpenBLAS)
tessera_require(Threads "a C library with POSIX threads")
tessera_require(MPI "Debian libmpich-dev mpich, Spack mpich or openmpi" COMPONENTS CXX)
tessera_require(HDF5 "Debian libhdf5-mpich-dev, Spack hdf5+mpi" COMPONENTS C)
if(NOT TESSERA_MISSING AND NOT HDF5_IS_PARALLEL)
  set(TESSERA_MISSING "Tessera needs an HDF5 built with MPI, and found one without: Debian \
libhdf5-mpich-dev, Spack hdf5+mpi (point HDF5_ROOT at it)")
endif()
tessera_require(Boost "Debian libboost-program-options-dev, Spack boost+program_options"
                1.70 COMPONENTS program_options)
tessera_require(BLAS "OpenBLAS, Debian libopenblas-dev, Spack openblas")
tessera_require(Kokkos "Debian libtrilinos-kokkos-dev, Spack kokkos" 3.4)
if(TESSERA_ONEDNN)
  tessera_require(dnnl "Debian libdnnl-dev, Spack onednn; or leave TESSERA_ONEDNN off")
  # To hold oneDNN to one thread.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(NOT TESSERA_MISSING AND "CUDA" IN_LIST Kokkos_DEVICES)
  tessera_require(CUDAToolkit "the CUDA toolkit that Kokkos was built with")
endif()
# Optional: data.source = images. An installed Tessera needs what it was built with.
if(TESSERA_AS_PACKAGE)
  if(TESSERA_JPEG)
    tessera_require(JPEG "Debian libjpeg62-turbo-dev, Spack libjpeg-turbo")
  endif()
else()
  find_package(JPEG)
  set(TESSERA_JPEG ${JPEG_FOUND})
endif()
# Optional: env.name = mujoco. MUJOCO_ROOT is the folder of a release, or the folder `mujoco` of the
# Python wheel, whose library has no name without a version.
if(NOT TESSERA_AS_PACKAGE)
  find_path(MUJOCO_INCLUDE_DIR mujoco/mujoco.h HINTS "${MUJOCO_ROOT}" ENV MUJOCO_ROOT
            PATH_SUFFIXES include)
  if(MUJOCO_LIBRARY AND NOT EXISTS "${MUJOCO_LIBRARY}")
    unset(MUJOCO_LIBRARY CACHE)  # the package has another version now
  endif()
  if(MUJOCO_ROOT)
    file(GLOB tessera_mujoco_names RELATIVE "${MUJOCO_ROOT}" "${MUJOCO_ROOT}/libmujoco.so.*")
  endif()
  find_library(MUJOCO_LIBRARY NAMES mujoco ${tessera_mujoco_names} HINTS "${MUJOCO_ROOT}"
               ENV MUJOCO_ROOT PATH_SUFFIXES lib)
  if(MUJOCO_INCLUDE_DIR AND MUJOCO_LIBRARY)
    set(TESSERA_MUJOCO "${MUJOCO_LIBRARY}")
    # The installed executable must find it, too, where it lies below the sources (a wheel in .venv).
    get_filename_component(tessera_mujoco_folder "${MUJOCO_LIBRARY}" DIRECTORY)
    list(APPEND CMAKE_INSTALL_RPATH "${tessera_mujoco_folder}")
  endif()
endif()
cmake_policy(POP)
if(TESSERA_MISSING)
  if(TESSERA_AS_PACKAGE)
    return()
  endif()
  message(FATAL_ERROR "${TESSERA_MISSING}.  On Debian and Ubuntu tools/install-deps installs it.")
endif()

if(NOT TARGET tessera_mpi)
  add_library(tessera_mpi INTERFACE IMPORTED)
  target_link_libraries(tessera_mpi INTERFACE MPI::MPI_CXX)
  target_compile_definitions(tessera_mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

  add_library(tessera_hdf5 INTERFACE IMPORTED)
  target_include_directories(tessera_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(tessera_hdf5 INTERFACE ${HDF5_C_LIBRARIES} tessera_mpi)
  target_compile_definitions(tessera_hdf5 INTERFACE ${HDF5_C_DEFINITIONS})

  add_library(tessera_blas INTERFACE IMPORTED)
  target_link_libraries(tessera_blas INTERFACE BLAS::BLAS)

  add_library(tessera_kokkos INTERFACE IMPORTED)
  target_link_libraries(tessera_kokkos INTERFACE Kokkos::kokkos)
  if("CUDA" IN_LIST Kokkos_DEVICES)
    target_link_libraries(tessera_kokkos INTERFACE CUDA::cublas)
    # Kokkos's own launcher turns compilations over to nvcc; it doesn't know them behind another one.
    set(CMAKE_CXX_COMPILER_LAUNCHER "")
  endif()

  add_library(tessera_jpeg INTERFACE IMPORTED)
  if(TESSERA_JPEG)
    target_link_libraries(tessera_jpeg INTERFACE JPEG::JPEG)
    target_compile_definitions(tessera_jpeg INTERFACE TESSERA_HAVE_JPEG)
  endif()

  add_library(tessera_mujoco INTERFACE IMPORTED)
  if(TESSERA_MUJOCO)
    target_link_libraries(tessera_mujoco INTERFACE "${TESSERA_MUJOCO}")
  endif()

  if(TESSERA_ONEDNN)
    target_link_libraries(tessera_blas INTERFACE DNNL::dnnl OpenMP::OpenMP_CXX)
    target_compile_definitions(tessera_blas INTERFACE TESSERA_HAVE_ONEDNN)
  endif()
endif()

# Debian's libtrilinos-kokkos-dev names an include folder that does not exist; CMake refuses such a
# target. Point it at the folder that holds Kokkos_Core.hpp.
foreach(target Kokkos::kokkos Kokkos::kokkoscore)
  if(TARGET ${target})
    get_target_property(tessera_folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    foreach(folder IN LISTS tessera_folders)
      if(IS_ABSOLUTE "${folder}" AND NOT EXISTS "${folder}")
        find_path(TESSERA_KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
        set_target_properties(${target} PROPERTIES
          INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_KOKKOS_INCLUDE_DIR}")
      endif()
    endforeach()
  endif()
endforeach()

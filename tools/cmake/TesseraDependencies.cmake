# SPDX-License-Identifier: BSD-3-Clause
# Every library that Tessera links, each as one imported target, so that no module repeats a repair.
find_package(MPI REQUIRED COMPONENTS CXX)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "Tessera needs an HDF5 built with MPI: Debian libhdf5-mpich-dev, Spack hdf5+mpi")
endif()
find_package(Boost 1.70 REQUIRED COMPONENTS program_options)
find_package(Threads REQUIRED)
set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
find_package(Kokkos 3.4 REQUIRED)
if(TESSERA_ONEDNN)
  find_package(dnnl REQUIRED)
endif()

add_library(tessera_mpi INTERFACE)
target_link_libraries(tessera_mpi INTERFACE MPI::MPI_CXX)
target_compile_definitions(tessera_mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

add_library(tessera_hdf5 INTERFACE)
target_include_directories(tessera_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(tessera_hdf5 INTERFACE ${HDF5_C_LIBRARIES} tessera_mpi)
target_compile_definitions(tessera_hdf5 INTERFACE ${HDF5_C_DEFINITIONS})

add_library(tessera_blas INTERFACE)
target_link_libraries(tessera_blas INTERFACE BLAS::BLAS)

# Debian's libtrilinos-kokkos-dev names an include folder that does not exist; CMake refuses such a
# target. Point it at the folder that holds Kokkos_Core.hpp, as a system folder (its headers warn).
get_target_property(tessera_kokkos_includes Kokkos::kokkoscore INTERFACE_INCLUDE_DIRECTORIES)
set(tessera_kokkos_repair OFF)
foreach(folder IN LISTS tessera_kokkos_includes)
  if(IS_ABSOLUTE "${folder}" AND NOT EXISTS "${folder}")
    set(tessera_kokkos_repair ON)
  endif()
endforeach()
if(tessera_kokkos_repair)
  find_path(TESSERA_KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
  foreach(target kokkoscore kokkoscontainers kokkosalgorithms kokkossimd)
    if(TARGET Kokkos::${target})
      set_target_properties(Kokkos::${target} PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_KOKKOS_INCLUDE_DIR}")
    endif()
  endforeach()
endif()
add_library(tessera_kokkos INTERFACE)
target_link_libraries(tessera_kokkos INTERFACE Kokkos::kokkos)

# SPDX-License-Identifier: BSD-3-Clause
# Install rules: bin/tessera, the library and headers with their CMake package, and under
# share/tessera what a person runs it with (decks, job scripts, tools).
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Tessera")
set(share "${CMAKE_INSTALL_DATADIR}/tessera")

install(TARGETS tessera RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS tessera_lib EXPORT TesseraTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY include/tessera DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "README.md")
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION "${package}")

configure_package_config_file(tools/cmake/TesseraConfig.cmake.in
  "${PROJECT_BINARY_DIR}/generated/TesseraConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/TesseraConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/TesseraConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/TesseraConfigVersion.cmake"
              tools/cmake/TesseraDependencies.cmake DESTINATION "${package}")

install(DIRECTORY input DESTINATION "${share}" FILES_MATCHING PATTERN "*.ini" PATTERN "*.md")
install(DIRECTORY jobs DESTINATION "${share}")
install(DIRECTORY tools DESTINATION "${share}" USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "*.py" PATTERN "spack_repo" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(EXISTS "${PROJECT_SOURCE_DIR}/README.md")
  install(FILES README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endif()

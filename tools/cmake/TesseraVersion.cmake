# SPDX-License-Identifier: BSD-3-Clause
# tessera_version_sources(OUT): generated sources that define what base/version.cpp reports.
# Run as a script (cmake -DSOURCE=… -DOUTPUT=… -P TesseraVersion.cmake) it writes the commit file,
# touching it only when the commit changed.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --match v*
                  WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE commit ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  # Inside somebody else's checkout (a vendored copy) git would answer for the wrong repository.
  if(failed OR NOT EXISTS "${SOURCE}/.git")
    set(commit "unknown")
  endif()
  file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT [[
// SPDX-License-Identifier: BSD-3-Clause
#include "base/version_build.hpp"

namespace tessera::base::build {
const char* git_commit() { return "@commit@"; }
}  // namespace tessera::base::build
]] @ONLY)
  return()
endif()

set(TESSERA_VERSION_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(tessera_version_sources out)
  set(TESSERA_BUILD_FLAGS "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  if(TESSERA_SANITIZE)
    string(APPEND TESSERA_BUILD_FLAGS ", sanitize ${TESSERA_SANITIZE}")
  endif()
  set(folder "${PROJECT_BINARY_DIR}/generated/base")
  configure_file("${PROJECT_SOURCE_DIR}/src/base/version_build.cpp.in"
                 "${folder}/version_build.cpp" @ONLY)
  add_custom_target(tessera_commit
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
            "-DOUTPUT=${folder}/version_commit.cpp" -P "${TESSERA_VERSION_SCRIPT}"
    BYPRODUCTS "${folder}/version_commit.cpp" COMMENT "" VERBATIM)
  set(${out} "${folder}/version_build.cpp" "${folder}/version_commit.cpp" PARENT_SCOPE)
endfunction()

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Catch2 as Debian has it (2.13) and as Spack gives it (3).
#ifdef TESSERA_CATCH2_V3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "tessera/base/attributes.hpp"

namespace tessera::io {

/// Attributes of an open object, in the order of their names; those of types that Attributes lacks
/// are left out.
Attributes read_attributes(hid_t object);
/// Writes texts as fixed-length UTF-8 (so that they lie in checksummed metadata), the others as
/// little-endian 64-bit values.
void write_attributes(hid_t object, const Attributes& attributes);

}  // namespace tessera::io

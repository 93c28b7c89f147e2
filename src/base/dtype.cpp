// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/dtype.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

DType parse_dtype(std::string_view text) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32})
    if (text == name_of(dtype)) return dtype;
  throw UserError(concat("'", text, "' is no element type; there are f32, f64, bf16 and i32"));
}

}  // namespace tessera

// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/norm.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr double kEpsilon = 1e-3;

/// Norm over dim `axis` of a [rows, columns] matrix by the definition.
std::vector<double> naive(const Values& values, std::int64_t rows, std::int64_t columns, bool last,
                          bool rms, bool scale, bool bias) {
  const auto& x = values.at("x");
  std::vector<double> y(x.size());
  const std::int64_t outer = last ? rows : columns, length = last ? columns : rows;
  const auto place = [&](std::int64_t o, std::int64_t i) {
    return static_cast<std::size_t>(last ? o * columns + i : i * columns + o);
  };
  for (std::int64_t o = 0; o < outer; ++o) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < length; ++i)
      mean += rms ? 0 : x[place(o, i)] / static_cast<double>(length);
    for (std::int64_t i = 0; i < length; ++i)
      variance += std::pow(x[place(o, i)] - mean, 2) / static_cast<double>(length);
    for (std::int64_t i = 0; i < length; ++i) {
      double value = (x[place(o, i)] - mean) / std::sqrt(variance + kEpsilon);
      if (scale) value *= values.at("scale")[static_cast<std::size_t>(i)];
      if (bias) value += values.at("bias")[static_cast<std::size_t>(i)];
      y[place(o, i)] = value;
    }
  }
  return y;
}

void check_norm(const std::string& name, bool last, bool rms, bool scale, bool bias) {
  const Shape shape{{"n", 4}, {"m", 7}};
  const Dim axis = last ? shape[1] : shape[0];
  OpCase c;
  c.name = name;
  c.inputs = {{"x", shape}};
  if (scale) c.inputs.push_back({"scale", {axis}});
  if (bias) c.inputs.push_back({"bias", {axis}});
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    const Tensor s = scale ? in[1] : Tensor();
    const Tensor b = bias ? in[2] : Tensor();
    return rms ? ops::rms_norm(in[0], axis.name, s, kEpsilon)
               : ops::layer_norm(in[0], axis.name, s, b, kEpsilon);
  };
  c.reference = [=](const Values& values) { return naive(values, 4, 7, last, rms, scale, bias); };
  check_op(c);
}

}  // namespace

TEST_CASE("layer norm over the last and another axis, cut or whole") {
  check_norm("layer norm", true, false, true, true);
  check_norm("layer norm without bias", true, false, true, false);
  check_norm("layer norm alone", true, false, false, false);
  check_norm("layer norm over the first dim", false, false, true, true);
}

TEST_CASE("RMS norm") {
  check_norm("rms norm", true, true, true, false);
  check_norm("rms norm alone", true, true, false, false);
  check_norm("rms norm over the first dim", false, true, true, false);
}

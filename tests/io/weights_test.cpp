// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/weights.hpp"

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/comm/simulated_collectives.hpp"

using namespace tessera;
using comm::SimulatedCollectives;
using test::contains;
using test::message_of;

namespace {

const Shape kShape{{"x", 5}};

template <class T>
io::SavedTensor saved(const std::string& path, DType dtype, const std::vector<T>& values) {
  return {path, {kShape, dtype}, Placement(0), [&values](int) { return values.data(); }};
}

}  // namespace

TEST_CASE("weights are found by name or by map, converted, and what is left over is listed") {
  const test::Scratch folder;
  const std::vector<float> single = {1.0F, -2.5F, 1.0F / 3.0F, 65504.0F, 3e38F};
  const std::vector<double> twice = {0.1, 1e-300, -7, 2, 3};
  const std::vector<Bf16> half = {to_bf16(1.5F), to_bf16(-2), to_bf16(3), to_bf16(4), to_bf16(5)};
  SimulatedCollectives one{MeshShape()};
  io::CheckpointContent content;
  content.tensors = {
      saved("/variables/a", DType::f32, single), saved("/variables/old/b", DType::f64, twice),
      saved("/variables/c", DType::bf16, half), saved("/optimizer/m/a", DType::f32, single)};
  const io::Checkpoint checkpoint(io::save_checkpoint(folder.path(), content, one, 0));

  SimulatedCollectives two(MeshShape::parse("a:2", 0));
  Placement split(1);
  split[0] = State::split(0);
  std::map<std::string, std::vector<double>> got;
  const auto wanted = [&](const std::string& path, DType dtype) {
    return io::LoadedTensor{
        path, {kShape, dtype}, split, [&got, path, dtype](int r, const void* tile) {
          for (int i = 0; i < (r == 0 ? 2 : 3); ++i) {
            double value = 0;
            if (dtype == DType::f64) value = static_cast<const double*>(tile)[i];
            if (dtype == DType::f32) value = static_cast<const float*>(tile)[i];
            if (dtype == DType::bf16) value = to_float(static_cast<const Bf16*>(tile)[i]);
            got[path].push_back(value);
          }
        }};
  };
  std::vector<io::LoadedTensor> tensors = {wanted("/variables/a", DType::f64),
                                           wanted("/variables/new/b", DType::f32),
                                           wanted("/variables/d", DType::f32)};
  const std::map<std::string, std::string> renamed = {{"new/b", "/variables/old/b"}};
  const io::WeightsReport report = io::load_weights(checkpoint, tensors, renamed, two);
  CHECK(report.loaded == std::vector<std::string>{"/variables/a", "/variables/old/b"});
  CHECK(report.missing == std::vector<std::string>{"/variables/d"});
  CHECK(report.extra == std::vector<std::string>{"/variables/c"});
  CHECK(got["/variables/a"] == std::vector<double>(single.begin(), single.end()));
  CHECK(got["/variables/new/b"] == std::vector<double>{0.1F, 0, -7, 2, 3});

  tensors = {wanted("/variables/c", DType::f32), wanted("/variables/a", DType::bf16)};
  io::load_weights(checkpoint, tensors, {}, two);
  CHECK(got["/variables/c"] == std::vector<double>{1.5, -2, 3, 4, 5});

  const auto refusal = [&](const std::map<std::string, std::string>& map) {
    return message_of([&] { io::load_weights(checkpoint, tensors, map, two); });
  };
  CHECK(contains(refusal({{"aa", "a"}}), "no weight aa (did you mean '/variables/a'?)"));
  CHECK(contains(refusal({{"a", "cc"}}), "has no tensor cc"));
  tensors = {wanted("/variables/x", DType::f32)};
  CHECK(contains(refusal({}), "train.init_map"));
  tensors = {wanted("/variables/a", DType::f32)};
  tensors[0].spec.shape = Shape{{"x", 6}};
  CHECK(contains(refusal({}), "[x:5]"));
  CHECK(contains(refusal({}), "[x:6]"));
}

// SPDX-License-Identifier: BSD-3-Clause
// Prints what data.source = images gives, for images_test.py: pixels and label as f32.
// usage: data_print_images training|validation HEIGHT WIDTH CHANNELS EPOCH INDEX PATH…
#include <cstdio>
#include <exception>
#include <string>

#include "tessera/data/corpus.hpp"

using namespace tessera;

int main(int count, char** arguments) try {
  const auto number = [&](int i) { return std::stoll(arguments[i]); };
  data::DataConfig config;
  config.source = "images";
  config.path.assign(arguments + 7, arguments + count);
  config.validation_fraction = 0.5;
  config.picture.mean = {"0"};
  config.picture.deviation = {"1"};
  const Shape shape{{"height", number(2)}, {"width", number(3)}, {"channels", number(4)}};
  const data::Wanted wanted{"viewer",
                            {{"image", {shape, DType::f32}},
                             {"label", {Shape{}, DType::i32}, 1000},
                             {"weights", {Shape{}, DType::f32}}},
                            0,
                            1};
  const auto corpus = data::open_corpus(config, wanted);
  const bool is_training = std::string(arguments[1]) == "training";
  const auto& samples = is_training ? *corpus.train : *corpus.validation;
  std::vector<float> pixels(static_cast<std::size_t>(shape.size()) + 1);
  std::int32_t label = 0;
  const Box whole = whole_box(shape);
  const data::Samples::Part parts[] = {{0, whole.data(), pixels.data()}, {1, nullptr, &label}};
  samples.read(number(5), number(6), parts);
  pixels.back() = static_cast<float>(label);
  std::fwrite(pixels.data(), sizeof(float), pixels.size(), stdout);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}

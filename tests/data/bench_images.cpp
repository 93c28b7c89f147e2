// SPDX-License-Identifier: BSD-3-Clause
// Pictures a second of CPU time: a loader that reads training samples on its thread, beside libjpeg
// and a resize of whole pictures that lie in memory.
// usage: bench_images SIDE PICTURES PATH…
#include <ctime>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tessera/data/corpus.hpp"
#include "tessera/data/jpeg.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/data/picture.hpp"
#include "tessera/io/hdf5.hpp"

using namespace tessera;

namespace {

/// CPU seconds of all threads of this process.
double seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double of_loader(const data::DataConfig& config, std::int64_t side, std::int64_t count) {
  const Shape shape{{"height", side}, {"width", side}, {"channels", 3}};
  const data::Wanted wanted{"bench",
                            {{"image", {shape, DType::f32}},
                             {"label", {Shape{}, DType::i32}},
                             {"weights", {Shape{}, DType::f32}}},
                            0,
                            1};
  const auto corpus = data::open_corpus(config, wanted);
  const std::int64_t batch = 20;
  Box box = whole_box(shape);
  box.insert(box.begin(), {0, batch});
  data::LoaderConfig loading;
  loading.batch = batch;
  loading.ahead = 1;
  data::Loader loader(corpus.train, loading, {{"image", {box}}, {"label", {{{0, batch}}}}});
  const double begin = seconds();
  for (std::int64_t i = 0; i < count / batch; ++i) loader.next();
  // One batch lies in the queue and one in the reader's hand, more or less.
  return static_cast<double>(count / batch * batch) / (seconds() - begin);
}

double of_libjpeg(const std::string& path, std::int64_t side, std::int64_t count) {
  const io::FileIndex index = io::read_index(path);
  const auto* bytes = index.find("/train/image/bytes");
  const auto* ends = index.find("/train/image/ends");
  std::ifstream file(path, std::ios::binary);
  const std::vector<unsigned char> all{std::istreambuf_iterator<char>(file), {}};
  const auto* end = reinterpret_cast<const std::int64_t*>(all.data() + ends->offset);
  std::vector<float> out(static_cast<std::size_t>(side * side * 3));
  const float factor[] = {1, 1, 1}, term[] = {0, 0, 0};
  const data::Wish wish{side, side, {0, side}, {0, side}, {0, 3}, factor, term};
  const double begin = seconds();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t k = i % ends->size(), at = k == 0 ? 0 : end[k - 1];
    data::Jpeg jpeg({all.data() + bytes->offset + at, static_cast<std::size_t>(end[k] - at)});
    const data::Crop whole{0, 0, static_cast<double>(jpeg.rows()),
                           static_cast<double>(jpeg.columns()), false};
    data::resample(jpeg.decode(3, 1, 0, jpeg.rows()), jpeg.rows(), whole, wish, out.data());
  }
  return static_cast<double>(count) / (seconds() - begin);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  data::DataConfig config;
  config.source = "images";
  config.path.assign(arguments + 3, arguments + count);
  config.validation_fraction = 0;
  const std::int64_t side = std::stoll(arguments[1]), pictures = std::stoll(arguments[2]);
  for (int round = 0; round < 3; ++round) {
    const double plain = of_libjpeg(arguments[3], side, pictures);
    const double loader = of_loader(config, side, pictures);
    std::printf("libjpeg and resize %.0f, loader %.0f images/s of a core, ratio %.2f\n", plain,
                loader, loader / plain);
  }
  return 0;
}

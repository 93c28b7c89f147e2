// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/metrics.hpp"

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using io::MetricsFile;

TEST_CASE("each appended object is a line that survives at once") {
  const test::Scratch folder;
  const std::string file = folder.path("metrics.jsonl");
  MetricsFile metrics(file);
  metrics.append("{\"step\":1,\"loss\":2.5}");
  CHECK(test::file_bytes(file) == "{\"step\":1,\"loss\":2.5}\n");
  metrics.append("{\"step\":2,\"loss\":2.25}");
  CHECK(test::file_bytes(file) == "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":2.25}\n");
  MetricsFile again(file);
  again.append("{\"step\":3}");
  CHECK(test::file_bytes(file).size() == 56);
  CHECK_THROWS_AS(MetricsFile(folder.path("no/metrics.jsonl")), UserError);
}

TEST_CASE("lines after the restored step are cut, and so is a torn one") {
  const test::Scratch folder;
  const std::string file = folder.path("metrics.jsonl");
  const std::string kept = "{\"step\": 9, \"loss\": 1}\n{\"step\":10,\"validation_loss\":2}\n";
  test::write_bytes(file,
                    kept + "{\"step\":11,\"loss\":1}\n{\"step\":100,\"loss\":1}\n{\"step\":1");
  CHECK(MetricsFile::cut_after(file, 10) == 3);
  CHECK(test::file_bytes(file) == kept);
  CHECK(MetricsFile::cut_after(file, 10) == 0);
  CHECK(MetricsFile::cut_after(file, 0) == 2);
  CHECK(test::file_bytes(file).empty());
  CHECK(MetricsFile::cut_after(folder.path("none"), 5) == 0);
}

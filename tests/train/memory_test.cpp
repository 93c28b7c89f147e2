// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/memory.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::train;
namespace fs = std::filesystem;

namespace {

/// A pretended /proc and /sys.
struct Root {
  test::Scratch scratch;
  Root() { write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n"); }
  void write(const std::string& name, const std::string& text) const { scratch.write(name, text); }
  double available() const { return available_memory(scratch.folder().string()); }
};

}  // namespace

TEST_CASE("Without a control group the node's available memory counts") {
  const Root root;
  CHECK(root.available() == 4000.0 * 1024);
  CHECK(available_memory() > 0);  // of this machine
}

TEST_CASE("The tightest group above the process counts, cached pages do not") {
  const Root root;
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.current", "700\n");
  CHECK(root.available() == 4000.0 * 1024);
  root.write("sys/fs/cgroup/job/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/job/memory.current", "300000\n");
  CHECK(root.available() == 700000);
  root.write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 50000\nactive_file 10000\n");
  CHECK(root.available() == 760000);
}

TEST_CASE("Groups of the first version are read too") {
  const Root root;
  root.write("proc/self/cgroup", "7:cpu:/x\n5:memory:/job\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000\n");
  root.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500\n");
  CHECK(root.available() == 1500);
}

TEST_CASE("A run that does not fit is refused with both numbers") {
  const double mebibyte = 1 << 20;
  const auto refusal = [&](const std::vector<double>& needed, double available) {
    try {
      check_memory(needed, available, "node1");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(std::vector<double>(4, mebibyte), 4 * mebibyte) == "");
  CHECK(refusal(std::vector<double>(4, 1e15), -1) == "");
  const std::string even = refusal({3 * mebibyte, 3 * mebibyte}, 4 * mebibyte);
  CHECK(even.find("node1: 2 rank(s) need 3.00 MiB each, 6.00 MiB together") != std::string::npos);
  CHECK(even.find("4.00 MiB are available") != std::string::npos);
  // A server needs less than those who compute: neither's need stands for the other's.
  CHECK(refusal({mebibyte, 3 * mebibyte}, 4 * mebibyte) == "");
  const std::string mixed = refusal({mebibyte, 3 * mebibyte, 3 * mebibyte}, 6 * mebibyte);
  CHECK(mixed.find("3 rank(s) need 1.00 MiB to 3.00 MiB each, 7.00 MiB") != std::string::npos);
}

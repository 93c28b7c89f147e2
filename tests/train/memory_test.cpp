// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/memory.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include "data/scratch.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::train;
namespace fs = std::filesystem;

namespace {

/// A pretended /proc and /sys.
struct Root {
  data::test::Scratch scratch;
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
  CHECK_NOTHROW(check_memory(1 << 20, 4, 4 << 20, "node1"));
  CHECK_NOTHROW(check_memory(1e15, 4, -1, "node1"));
  try {
    check_memory(3 << 20, 2, 4 << 20, "node1");
    FAIL("no error");
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK(message.find("node1") != std::string::npos);
    CHECK(message.find("6.00 MiB together") != std::string::npos);
    CHECK(message.find("4.00 MiB are available") != std::string::npos);
  }
}

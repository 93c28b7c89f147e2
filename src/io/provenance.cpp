// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/provenance.hpp"

#include <fstream>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"

namespace tessera::io {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const auto colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return trim(line.substr(colon + 1));
    }
  }
  return "unknown";
}

std::vector<std::pair<std::string, std::string>> fields(const Provenance& p) {
  return {{"version", p.version},
          {"build", p.build},
          {"mpi", p.mpi},
          {"libraries", p.libraries},
          {"cpu", p.cpu},
          {"mesh", p.mesh},
          {"ranks_per_node", std::to_string(p.ranks_per_node)}};
}

}  // namespace

Provenance Provenance::here() {
  Provenance p;
  p.version = base::version() + " " + base::git_commit();
  p.build = base::build_flags();
  p.cpu = cpu_model();
  return p;
}

void Provenance::add_to(Attributes& attributes) const {
  for (const auto& [name, value] : fields(*this)) attributes.set(name, value);
}

std::vector<std::string> Provenance::differences(const Attributes& stored) const {
  std::vector<std::string> lines;
  for (const auto& [name, now] : fields(*this)) {
    const std::string then = stored.contains(name) ? stored.text(name) : "unknown";
    if (then != now) lines.push_back(concat(name, ": ", then, " then, ", now, " now"));
  }
  return lines;
}

}  // namespace tessera::io

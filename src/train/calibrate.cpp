// SPDX-License-Identifier: BSD-3-Clause
// `tessera calibrate`: measures the machine that it runs on.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>

#include "probes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/cores.hpp"
#include "tessera/config/deck.hpp"
#include "tessera/plan/fit.hpp"
#include "tessera/train/verbs.hpp"

namespace tessera::train {
namespace {

constexpr double kAloneSeconds = 15, kTogetherSeconds = 17;

/// Times of this rank's samples as the mean over all ranks, which have the same samples.
void average(const comm::World& world, std::vector<plan::Measured>& samples) {
  std::vector<double> seconds;
  for (const auto& sample : samples) seconds.push_back(sample.seconds);
  seconds = world.sum(seconds);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i].seconds = seconds[i] / static_cast<double>(world.size());
}

std::map<std::string, plan::Link> fit_links(const std::vector<plan::MeasuredCollective>& samples) {
  std::map<std::string, std::vector<plan::MeasuredCollective>> by_kind;
  for (const auto& sample : samples) by_kind[program::name_of(sample.kind)].push_back(sample);
  std::map<std::string, plan::Link> links;
  for (const auto& [name, list] : by_kind) links[name] = plan::fit_link(list);
  return links;
}

/// The few numbers that stand in for what was not measured: out of what was.
void fill_specification(plan::Machine& machine) {
  const auto& rates = machine.together.empty() ? machine.alone : machine.together;
  const auto product = rates.find("einsum.f32"), half = rates.find("einsum.bf16"),
             pointwise = rates.find("pointwise.f32");
  if (product != rates.end() && product->second[2] > 0) machine.flops = 1 / product->second[2];
  if (half != rates.end() && half->second[2] > 0) machine.flops_bf16 = 1 / half->second[2];
  if (pointwise != rates.end() && pointwise->second[1] + pointwise->second[2] > 0)
    machine.memory_bandwidth = 1 / (pointwise->second[1] + pointwise->second[2]);
  const auto link = machine.links.find("all_reduce");
  if (link == machine.links.end()) return;
  machine.latency = link->second.alpha;
  if (link->second.beta > 0) machine.bandwidth = 1 / link->second.beta;
}

/// The file to write: opened before minutes are spent, written aside and renamed, so that neither
/// an older measurement nor a deck that was named by mistake is lost.
class MachineFile {
 public:
  explicit MachineFile(const std::string& file) : file_(file), part_(file + ".part") {
    std::error_code unknown;
    check_user(!std::filesystem::exists(file_, unknown) ||
                   config::read_deck_file(file_).find("[machine]") != std::string::npos,
               file_, " is there already and describes no machine: name another file");
    errno = 0;
    stream_.open(part_);
    check_user(stream_.is_open(), "cannot write ", part_, ": ", std::strerror(errno));
  }
  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;
  ~MachineFile() {
    std::remove(part_.c_str());  // unless it was renamed
  }

  void write(const std::string& text) {
    stream_ << text;
    stream_.close();
    std::error_code failed;
    if (stream_) std::filesystem::rename(part_, file_, failed);
    check_user(stream_.good() && !failed, "cannot write ", file_);
  }

 private:
  std::string file_, part_;
  std::ofstream stream_;
};

}  // namespace

ExitCode run_calibrate(Backend& backend, const std::string& file, std::ostream& out) {
  const auto& world = backend.world();
  std::optional<MachineFile> target;
  comm::agree_on(world, [&] {
    if (backend.is_root()) target.emplace(file);
  });
  const device::Exec exec;
  plan::Machine machine;
  machine.name = base::host_name() + ", measured";
  machine.cores = device::Exec::is_host() ? static_cast<std::int64_t>(comm::allowed_cores().size())
                                          : backend.ranks_on_node();
  machine.ranks_per_node = backend.ranks_on_node();
  machine.measured_ranks = backend.ranks_on_node();
  if (backend.is_root()) machine.alone = plan::fit_rates(measure_work(exec, kAloneSeconds, [] {}));
  world.barrier();
  if (world.size() > 1) {
    auto samples = measure_work(exec, kTogetherSeconds, [&] { world.barrier(); });
    average(world, samples);
    machine.together = plan::fit_rates(samples);
    const auto collectives =
        backend.make_collectives(MeshShape({{"ranks", world.size()}}), {}, exec);
    machine.links = fit_links(measure_collectives(*collectives, exec));
  }
  fill_specification(machine);
  comm::agree_on(world, [&] {
    if (!backend.is_root()) return;
    target->write(machine.to_ini(concat(
        "What ", base::host_name(), " does in a second, measured by `tessera calibrate` on ",
        world.size(), " rank(s)\nwith ", device::describe(), ", ", backend.library(),
        ".\nName it in a deck as plan.machine. Numbers behind a kind of work: seconds of each of "
        "the units\nthat the comment names.")));
    out << "measured " << machine.name << ": " << format_count(machine.flops) << "FLOP/s and "
        << format_bytes(machine.memory_bandwidth) << "/s of memory for each of " << world.size()
        << " rank(s), written to " << file << std::endl;
  });
  return kDone;
}

}  // namespace tessera::train

// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/trace.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "io/team.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

std::string part_name(const std::string& file, int rank) {
  return concat(file, ".rank", rank, ".part");
}

struct Description {
  std::string name;
  std::string category;
};

struct Describe {
  int stage = -1;  ///< of the rank; -1: several ranks in lock-step

  Description operator()(const program::KernelStep& step) const {
    return {step.label, step.kernel};
  }
  Description operator()(const program::AllReduceStep& step) const {
    return {step.label, "all_reduce"};
  }
  Description operator()(const program::RelayoutStep& step) const {
    return {step.label, program::name_of(step.kind)};
  }
  Description operator()(const program::RingStep& step) const {
    return {step.label, "communication"};
  }
  Description operator()(const program::FinishStep& step) const { return {step.label, "finish"}; }
  Description operator()(const program::LocalStep& step) const { return {step.label, "local"}; }
  Description operator()(const program::TransferStep& step) const {
    if (stage < 0)
      return {concat(step.label, " from stage ", step.from, " to ", step.to), "transfer"};
    // As long as the rank waits for the other side.
    return stage == step.from
               ? Description{concat(step.label, " to stage ", step.to), "send"}
               : Description{concat(step.label, " from stage ", step.from), "receive"};
  }
  Description operator()(const program::ExchangeStep& step) const {
    return {step.label, step.mesh_dims.empty() ? "local" : "neighbour_exchange"};
  }
};

std::string event(int rank, const Description& what, const std::string& section, double begin,
                  double end) {
  JsonWriter json;
  json.begin_object().key("ph").value("X").key("pid").value(0).key("tid").value(rank);
  json.key("name").value(what.name).key("cat").value(what.category);
  json.key("ts").value(begin).key("dur").value(end - begin);
  json.key("args").begin_object().key("section").value(section).key("op").value(what.category);
  return json.end_object().end_object().text();
}

/// One end of a flight, which is drawn in a row of its own beside the steps of its rank.
std::string flight_event(const char* end, int rank, int flight, const Description& what,
                         const std::string& section, double at) {
  JsonWriter json;
  json.begin_object().key("ph").value(end).key("pid").value(0).key("tid").value(rank);
  json.key("id").value(concat(rank, ".", flight)).key("name").value(what.name);
  json.key("cat").value(what.category + " under way").key("ts").value(at);
  json.key("args").begin_object().key("section").value(section).key("flight").value(flight);
  return json.end_object().end_object().text();
}

/// The stage of this process's rank; -1: it has several, or the mesh has no stages.
int stage_of(const comm::Collectives& collectives) {
  const auto stage_dim = collectives.mesh().find(kStageDim);
  if (!stage_dim || collectives.local_ranks().size() > 1) return -1;
  return collectives.mesh().coordinates(
      collectives.local_ranks().front())[static_cast<std::size_t>(*stage_dim)];
}

/// Names a row of the picture.
std::string row_name(int first_rank, std::size_t ranks, int stage) {
  const std::string name =
      ranks == 1
          ? concat("rank ", first_rank, stage < 0 ? std::string() : concat(", stage ", stage))
          : concat("ranks ", first_rank, "-", first_rank + static_cast<int>(ranks) - 1,
                   " in lock-step");
  JsonWriter json;
  json.begin_object().key("ph").value("M").key("pid").value(0).key("tid").value(first_rank);
  json.key("name").value("thread_name").key("args").begin_object();
  return json.key("name").value(name).end_object().end_object().text();
}

}  // namespace

TraceRecorder::TraceRecorder(std::string file, comm::Collectives& collectives)
    : file_(std::move(file)),
      collectives_(collectives),
      part_(part_name(file_, collectives.local_ranks().front())) {
  const Team team(collectives_);
  team.agree(attempt([&] {
    std::error_code unknown;
    check_user(!fs::is_directory(file_, unknown), "run.trace: ", file_,
               " is a folder; name a file");
    out_ = std::fopen(part_.c_str(), "w");
    check_user(out_ != nullptr, "run.trace: can't write ", part_, ": ", std::strerror(errno));
    write(row_name(team.local_ranks().front(), team.local_ranks().size(), stage_of(collectives_)));
  }));
  team.world().barrier();
  start_ = std::chrono::steady_clock::now();
}

TraceRecorder::~TraceRecorder() {
  if (!out_) return;  // finish() was called
  std::fclose(out_);
  std::remove(part_.c_str());
}

double TraceRecorder::now() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
      .count();
}

void TraceRecorder::write(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fputc('\n', out_);
}

void TraceRecorder::begin(const std::string& /*section*/, const program::Step& step) {
  begun_ = now();
  if (program::started_by(step) >= 0) started_[program::started_by(step)] = begun_;
}

void TraceRecorder::end(const std::string& section, const program::Step& step) {
  const double ended = now();
  write(event(collectives_.local_ranks().front(),
              std::visit(Describe{stage_of(collectives_)}, step), section, begun_, ended));
}

void TraceRecorder::landed(const std::string& section, const program::Step& start) {
  const int rank = collectives_.local_ranks().front(), flight = program::started_by(start);
  const Description what = std::visit(Describe{stage_of(collectives_)}, start);
  write(flight_event("b", rank, flight, what, section, started_.at(flight)));
  write(flight_event("e", rank, flight, what, section, now()));
}

void TraceRecorder::begin_phase() {
  phase_begun_ = now();
}

void TraceRecorder::end_phase(const std::string& name) {
  write(event(collectives_.local_ranks().front(), {name, "host"}, "", phase_begun_, now()));
}

void TraceRecorder::finish() {
  const Team team(collectives_);
  team.agree(attempt([&] {
    const bool written = std::ferror(out_) == 0;
    const bool closed = std::fclose(std::exchange(out_, nullptr)) == 0;
    if (!written || !closed) throw Error(concat(part_, ": can't write the trace"));
  }));
  const std::vector<std::int64_t> firsts = team.world().gather_integer(team.local_ranks().front());
  team.leader_does([&] {
    const std::string aside = file_ + ".part";
    std::ofstream out(aside);
    out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    std::string line;
    const char* separator = "";
    for (std::int64_t first : firsts) {
      const std::string part = part_name(file_, static_cast<int>(first));
      for (std::ifstream in(part); std::getline(in, line); separator = ",\n") {
        out << separator << line;
      }
      fs::remove(part);
    }
    out << "\n]}\n";
    out.close();
    if (!out) throw Error(concat(aside, ": can't write the trace"));
    fs::rename(aside, file_);
  });
}

}  // namespace tessera::io

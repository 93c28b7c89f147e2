// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/config.hpp"

#include <charconv>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::train {

static constexpr double kAny = std::numeric_limits<double>::infinity();

void RunConfig::describe(config::Schema& schema) {
  schema
      .add("run.dir", dir,
           "Folder of the run: metrics.jsonl, checkpoints, the resolved deck. Empty: "
           "runs/<name of the deck> in the working directory.")
      .path()
      .free_key();
  schema
      .add("run.seed", seed,
           "Seed of the initial weights, of dropout and, unless data.seed says otherwise, of the "
           "order of samples. The same on every mesh.")
      .range(0, kAny);
  schema
      .add("run.walltime", walltime,
           "Stop in time to save before this much time has passed since the start: 90s, 15m, 2h, "
           "HH:MM:SS or D-HH:MM:SS. Empty: only SLURM_JOB_END_TIME counts, where Slurm gives it.")
      .free_key();
  schema
      .add("run.stop_file", stop_file,
           "When this file appears the run deletes it, saves and ends with exit code 0. Empty: "
           "the file `stop` in run.dir.")
      .path()
      .free_key();
  schema
      .add("run.trace", trace,
           "Write a Chrome trace of the steps and collectives of all ranks to this file. "
           "Empty: none.")
      .path()
      .free_key();
  schema
      .add("run.hang_timeout", hang_timeout,
           "Seconds without a finished step after which every rank prints where it is and the "
           "job aborts; never less than ten times the slowest step. 0: wait for ever.")
      .range(0, kAny)
      .free_key();
  schema
      .add("run.overwrite", overwrite,
           "Begin anew in a folder that holds another run, whose metrics and checkpoints are "
           "deleted.")
      .free_key();
  schema
      .add("run.stop_signals", stop_signals,
           "Signals that make the run save and end with exit code 85, whichever rank gets one.")
      .free_key();
  schema
      .add("run.log_seconds", log_seconds,
           "Print a step's line when this many seconds have passed since the last one; 0: every "
           "step. metrics.jsonl holds every step in any case.")
      .range(0, kAny)
      .free_key();
}

void MeshConfig::describe(config::Schema& schema) {
  schema
      .add("mesh.shape", shape,
           "Mesh of ranks, such as batch:2,model:4; one size may be *. Empty: the first mesh dim "
           "that layout.rules names takes all ranks.")
      .free_key();
  schema
      .add("layout.rules", rules,
           "Which tensor dim is cut over which mesh dim, such as batch:batch, vocab:model, "
           "d_ff:model, heads:model. Changes speed and memory, never results.")
      .free_key();
  schema
      .add("layout.store", store,
           "Mesh dim, usually the one that cuts the batch, over which weights of two dims and more "
           "are stored split: gathered just before use, again in the backward pass, and released "
           "after it. Saves memory, costs one more gather of each weight. Empty: none.")
      .free_key();
}

void TrainConfig::describe(config::Schema& schema) {
  schema.add("train.steps", steps, "Optimizer steps in all, those before a resume included.")
      .range(0, kAny)
      .free_key();
  schema
      .add("train.resume", resume,
           "never: begin at step 0. auto: go on from the newest whole checkpoint of run.dir, or "
           "begin if there is none. Anything else: the checkpoint file to go on from.")
      .free_key();
  schema
      .add("train.dtype", dtype,
           "Numbers of activations: f32; bf16 (weights and sums stay f32); f64.")
      .choices({"f32", "bf16", "f64"});
  schema
      .add("train.micro_batches", micro_batches,
           "Cut each batch into this many parts that run one after the other; must divide "
           "data.batch. Changes memory, never results.")
      .range(1, kAny)
      .free_key();
  schema
      .add("train.on_nonfinite", on_nonfinite,
           "When a gradient is infinite or not a number: stop, or skip the step on all ranks.")
      .choices({"stop", "skip"})
      .free_key();
  schema
      .add("train.init_from", init_from,
           "Checkpoint whose weights, with what belongs to them (running statistics), a new run "
           "begins with; optimizer and data begin anew.")
      .path()
      .free_key();
  schema
      .add("train.init_map", init_map,
           "How the checkpoint of train.init_from calls weights: ours=theirs, where both may be "
           "the beginning of names that ends with a slash.")
      .free_key();
  schema
      .add("train.override", override_keys,
           "Identity keys that may differ from the checkpoint's when a run is resumed.")
      .free_key();
  schema
      .add(
          "train.recompute", recompute,
          "Computes parts of the forward pass (blocks of a Transformer, of convolutions) again in "
          "the backward pass instead of keeping their values: none; all; auto: those that make the "
          "run fit plan.memory_limit at the least predicted time. The numbers stay bitwise the "
          "same.")
      .choices({"none", "all", "auto"})
      .free_key();
}

void AsyncConfig::describe(config::Schema& schema) {
  schema
      .add("replicate.mode", mode,
           "sync: all ranks do each step together. async: some ranks are servers, which keep the "
           "weights; groups of the others pull them, compute gradients and push these, each at its "
           "own pace; mesh and layout are a group's.")
      .choices({"sync", "async"})
      .free_key();
  schema
      .add("replicate.servers", servers,
           "async: so many ranks, the first ones, keep weights and optimizer state, cut between "
           "them.")
      .range(1, kAny)
      .free_key();
  schema
      .add("replicate.group", group,
           "async: ranks of one group of workers, which is synchronous inside. 0: the size of "
           "mesh.shape, or 1.")
      .range(0, kAny)
      .free_key();
  schema
      .add("replicate.staleness", staleness,
           "async: a group waits when it is more than so many pushes ahead of the slowest. 0: the "
           "groups share each batch and all gradients make one update, as in mode sync; -1: "
           "nobody waits.")
      .range(-1, kAny)
      .free_key();
  schema
      .add("replicate.dead_after", dead_after,
           "async: a group that is silent for so many seconds is lost, and the others go on "
           "without it. Longer than any pause that a machine may make.")
      .range(0.1, kAny)
      .free_key();
}

void EvalConfig::describe(config::Schema& schema) {
  schema.add("eval.every", every, "Steps between evaluations on the validation samples; 0: none.")
      .range(0, kAny)
      .free_key();
  schema
      .add("eval.batches", batches,
           "Batches of an evaluation during training; 0: all samples, as `tessera eval` always "
           "takes.")
      .range(0, kAny)
      .free_key();
  schema.add("eval.episodes", episodes, "Episodes of an evaluation of a model that acts.")
      .range(1, kAny)
      .free_key();
}

void CheckpointConfig::describe(config::Schema& schema) {
  schema
      .add("checkpoint.every", every,
           "Steps between checkpoints; 0: only at the end and at a stop.")
      .range(0, kAny)
      .free_key();
  schema.add("checkpoint.minutes", minutes, "Minutes between checkpoints; 0: no such rule.")
      .range(0, kAny)
      .free_key();
  schema.add("checkpoint.keep", keep, "How many of the last checkpoints stay; 0: all.")
      .range(0, kAny)
      .free_key();
  schema
      .add("checkpoint.best", best,
           "Keep the checkpoint with the lowest validation loss besides, as best.h5.")
      .free_key();
}

void PlanConfig::describe(config::Schema& schema) {
  schema.add("plan.ranks", ranks, "Ranks to plan for; 0: as many as mesh.shape has, or 1.")
      .range(0, kAny)
      .free_key();
  schema
      .add("plan.memory_limit", memory_limit,
           "Refuse a plan that needs more memory on a rank: 512MB, 16GiB. Empty: no limit.")
      .free_key();
  schema
      .add("plan.time_limit", time_limit,
           "Seconds after which `tessera plan --search` answers with the best that it has found.")
      .range(0, kAny)
      .free_key();
  schema
      .add("plan.machine", machine,
           "INI file with what the machine does in a second, as `tessera calibrate` writes it; "
           "input/machines has some from specifications. Empty: a CPU core for each rank.")
      .path()
      .free_key();
  schema
      .add("plan.ranks_per_node", ranks_per_node,
           "Ranks that share a node; 0: what plan.machine says, or all.")
      .range(0, kAny)
      .free_key();
  schema
      .add("plan.objective", objective,
           "What `tessera plan --search` makes small: the predicted time of a step under "
           "plan.memory_limit, or the memory of a rank.")
      .choices({"time", "memory"})
      .free_key();
}

void SampleConfig::describe(config::Schema& schema) {
  schema.add("sample.prompt", prompt, "Text that a sample continues.").free_key();
  schema
      .add("sample.prompt_file", prompt_file,
           "File whose lines `tessera sample` continues instead, each by itself.")
      .path()
      .free_key();
  schema
      .add("sample.batch", batch,
           "Prompts that are continued at a time; the layout's rules may split them as batch.")
      .range(1, kAny)
      .free_key();
  schema
      .add("sample.length", length,
           "Tokens to draw after training or by `tessera sample`; 0: none. The model looks back at "
           "data.length tokens at most: when there are more, the older half is forgotten.")
      .range(0, kAny)
      .free_key();
  schema
      .add("sample.temperature", temperature,
           "Divides the logits; 0 always takes the likeliest token.")
      .range(0, kAny)
      .free_key();
  schema.add("sample.top_k", top_k, "Draw from this many of the likeliest tokens; 0: from all.")
      .range(0, kAny)
      .free_key();
  schema
      .add("sample.beam", beam,
           "Search the likeliest continuation with this many hypotheses, one prompt after the "
           "other, and draw nothing; 0: draw.")
      .range(0, 1000)
      .free_key();
  schema.add("sample.seed", seed, "Seed of the draws.").range(0, kAny).free_key();
  schema
      .add("sample.count", count,
           "Samples (pictures) that a model which draws them writes to run.dir/samples after "
           "training or by `tessera sample`; 0: none.")
      .range(0, kAny)
      .free_key();
  schema
      .add("sample.every", every,
           "Write sample.count samples also each time after so many steps; 0: never.")
      .range(0, kAny)
      .free_key();
}

void TranslateConfig::describe(config::Schema& schema) {
  schema
      .add("translate.input", input,
           "File whose lines `tessera translate` translates, each by itself.")
      .path()
      .free_key();
  schema
      .add("translate.beam", beam,
           "Hypotheses that beam search follows; 1: always the likeliest "
           "token.")
      .range(1, 1000)
      .free_key();
  schema
      .add("translate.alpha", alpha,
           "Length penalty: a hypothesis' log probability is divided by ((5 + tokens) / 6)^alpha; "
           "0: by nothing.")
      .range(0, 100)
      .free_key();
  schema.add("translate.length", length, "Tokens of the longest translation; 0: data.length.")
      .range(0, kAny)
      .free_key();
  schema
      .add("translate.batch", batch,
           "Lines that are translated at a time; the layout's rules may split them as batch.")
      .range(1, kAny)
      .free_key();
  schema.add("translate.best", best, "Translations of each line, best first, with their scores.")
      .range(1, 1000)
      .free_key();
}

void NumericsConfig::describe(config::Schema& schema) {
  schema
      .add("numerics.reduce", reduce,
           "mpi: sums over ranks in the order that MPI likes. ordered: in the order of ranks, "
           "slower, bit-equal under every MPI.")
      .choices({"mpi", "ordered"})
      .free_key();
  schema
      .add("comm.gpu_aware", gpu_aware,
           "Whether MPI is given a GPU's pointers: auto tries it at the start, but never with Open "
           "MPI, whose nonblocking reductions do not take them.")
      .choices({"auto", "on", "off"})
      .free_key();
  schema
      .add("comm.overlap", overlap,
           "on: gradients are reduced and weights are gathered while the ranks compute, bucket by "
           "bucket; it pays where the network moves data without the cores. none: ranks wait for "
           "each collective.")
      .choices({"none", "on"})
      .free_key();
  schema
      .add("comm.bucket", bucket,
           "With comm.overlap = on: the largest bucket that is reduced at once.")
      .free_key();
}

namespace {

/// A number at the start of `text`, which loses it; false if there is none.
bool take_number(std::string_view& text, double& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || !(value >= 0 && value <= 1e18)) return false;  // nor a NaN
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return true;
}

/// Seconds of "[D-]HH:MM:SS" or "MM:SS"; negative if the text is no such thing.
double clock_seconds(std::string_view text) {
  double days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    std::int64_t whole = 0;
    if (!parse_integer(text.substr(0, dash), whole) || whole < 0) return -1;
    days = static_cast<double>(whole);
    text.remove_prefix(dash + 1);
  }
  const auto parts = split(text, ':');
  if (parts.size() > 3 || parts.size() < 2) return -1;
  double seconds = 0;
  for (const auto& part : parts) {
    std::int64_t value = 0;
    if (!parse_integer(part, value) || value < 0) return -1;
    seconds = seconds * 60 + static_cast<double>(value);
  }
  return days * 86400 + seconds;
}

}  // namespace

double parse_duration(const std::string& key, std::string_view text) {
  std::string_view rest = text;
  double value = 0;
  if (text.find(':') != std::string_view::npos) {
    value = clock_seconds(text);
    if (value >= 0) return value;
  } else if (take_number(rest, value)) {
    if (rest.empty() || rest == "s") return value;
    if (rest == "m") return value * 60;
    if (rest == "h") return value * 3600;
    if (rest == "d") return value * 86400;
  }
  throw UserError(concat(key, ": '", text,
                         "' is no time: write 90s, 15m, 2h, 1d, MM:SS, HH:MM:SS or D-HH:MM:SS"));
}

double parse_bytes(const std::string& key, std::string_view text) {
  std::string_view rest = text;
  double value = 0;
  if (take_number(rest, value)) {
    const std::string unit = trim(rest);
    if (unit.empty() || unit == "B") return value;
    double power = 1;
    for (const char* prefix : {"k", "M", "G", "T"}) {
      power *= 1000;
      if (unit == std::string(prefix) + "B") return value * power;
    }
    power = 1;
    for (const char* prefix : {"Ki", "Mi", "Gi", "Ti"}) {
      power *= 1024;
      if (unit == std::string(prefix) + "B") return value * power;
    }
  }
  throw UserError(concat(key, ": '", text, "' is no amount of memory: write 512MB, 16GiB"));
}

}  // namespace tessera::train

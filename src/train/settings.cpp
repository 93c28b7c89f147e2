// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/settings.hpp"

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::train {
namespace {

void describe_all(Settings& settings, const Models& models) {
  auto& schema = settings.schema;
  settings.run.describe(schema);
  settings.mesh.describe(schema);
  schema.add("model.name", settings.model_name, "Which model is trained.").choices(models.names());
  settings.model->describe(schema);
  settings.data.describe(schema);
  settings.env.describe(schema);
  settings.optim.describe(schema);
  settings.replicate.describe(schema);
  settings.train.describe(schema);
  settings.async.describe(schema);
  settings.eval.describe(schema);
  settings.checkpoint.describe(schema);
  settings.sample.describe(schema);
  settings.translate.describe(schema);
  settings.plan.describe(schema);
  settings.numerics.describe(schema);
}

void check(const Settings& settings) {
  if (settings.model->acts()) {
    settings.env.validate();
    settings.model->set_spaces(settings.spaces());
  }
  settings.model->validate();
  settings.optim.validate();
  const auto& data = settings.data;
  const std::int64_t parts = settings.train.micro_batches;
  // Of a replica's share of the batch the Task knows.
  const bool divides = settings.model->is_replicated() || data.batch % parts == 0;
  check_user(divides, "train.micro_batches = ", parts, " does not divide data.batch = ", data.batch,
             ": take a divisor of it");
  const std::int64_t longest = settings.model->max_length();
  check_user(longest == 0 || data.length <= longest, "data.length = ", data.length,
             " is longer than the model takes: model.max_length = ", longest);
  check_user(
      !settings.async.is_async() || !settings.checkpoint.best,
      "checkpoint.best keeps the weights that were evaluated, and with replicate.mode = async "
      "training goes on meanwhile: evaluate checkpoints by tessera eval");
  check_user(!settings.async.is_async() || !settings.model->acts() || settings.async.staleness != 0,
             "replicate.staleness = 0: groups of ", settings.model_name,
             " have experience of their own and no batch to share: take a bound of 1, or "
             "replicate.mode = sync");
  if (!settings.run.walltime.empty()) parse_duration("run.walltime", settings.run.walltime);
  if (!settings.plan.memory_limit.empty())
    parse_bytes("plan.memory_limit", settings.plan.memory_limit);
  check_user(parse_bytes("comm.bucket", settings.numerics.bucket) >= 1,
             "comm.bucket = ", settings.numerics.bucket, " has no room: take 1MiB or more");
  for (const std::string& key : settings.train.override_keys)
    check_user(settings.schema.find(key) != nullptr, "train.override: there is no key '", key, "'",
               did_you_mean(key, settings.schema.names()));
  const bool resumes_file = settings.train.resume != "never" && settings.train.resume != "auto";
  check_user(settings.train.init_from.empty() || !resumes_file,
             "train.init_from begins a new run, train.resume = ", settings.train.resume,
             " goes on with one: give one of them");
  check_user(settings.train.init_map.empty() || !settings.train.init_from.empty() || resumes_file,
             "train.init_map = ", join(settings.train.init_map, ","),
             " says how the checkpoint of train.init_from calls weights, and train.init_from is "
             "empty: give both or neither");
}

/// What a run is called that was not given a folder.
std::string default_folder(const std::string& deck) {
  const std::string stem = std::filesystem::path(deck).stem().string();
  return (std::filesystem::current_path() / "runs" / (stem.empty() ? "run" : stem)).string();
}

}  // namespace

replicate::TaskConfig Settings::task_config() const {
  replicate::TaskConfig config;
  config.batch = data.batch;
  config.length = data.length;
  config.micro_batches = train.micro_batches;
  config.dtype = parse_dtype(train.dtype);
  config.seed = static_cast<std::uint64_t>(run.seed);
  // Whether epochs are whole batches is not known before the data are read.
  config.padded = !model->acts();
  if (model->acts())
    config.act = {.environments = env.count, .runs = env.steps_per_update, .spaces = spaces()};
  if (sample.count > 0) {
    config.draw.rows = std::min(sample.count, data.batch / train.micro_batches);
    config.draw.total = sample.count;
    config.draw.seed = static_cast<std::uint64_t>(sample.seed);
  }
  if (translates) {
    config.decode.rows = translate.batch;
    config.decode.beam = translate.beam;
    config.decode.length = translate.length > 0 ? translate.length : data.length;
    config.decode.source_length = data.length;
  } else if (sample.length > 0) {
    config.decode.rows = sample.beam > 0 ? 1 : sample.batch;
    config.decode.beam = sample.beam;
    config.decode.draw = {.temperature = sample.temperature,
                          .top_k = sample.top_k,
                          .seed = static_cast<std::uint64_t>(sample.seed)};
  }
  return config;
}

replicate::Spaces Settings::spaces() const {
  const auto spec = env.environment()()->spec();
  return {spec.observation, spec.action};
}

std::string Settings::run_file(const std::string& name) const {
  return (std::filesystem::path(run.dir) / name).string();
}

std::unique_ptr<Settings> describe_settings(const Models& models,
                                            const std::optional<std::string>& model) {
  TESSERA_CHECK(!models.names().empty(), "no model is known");
  auto settings = std::make_unique<Settings>();
  settings->model_name = models.names().front();
  settings->model = models.make(model.value_or(settings->model_name));
  describe_all(*settings, models);
  return settings;
}

std::unique_ptr<Settings> read_settings(const config::Deck& deck, const Models& models) {
  auto settings = describe_settings(models, deck.find("model.name"));
  deck.apply(settings->schema);
  if (settings->run.dir.empty()) settings->run.dir = default_folder(deck.path());
  if (settings->run.stop_file.empty()) settings->run.stop_file = settings->run_file("stop");
  settings->schedule_steps_given = settings->optim.schedule_steps > 0;
  if (!settings->schedule_steps_given) settings->optim.schedule_steps = settings->train.steps;
  check(*settings);
  return settings;
}

}  // namespace tessera::train

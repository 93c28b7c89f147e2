// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/data_feeder.hpp"

#include "tessera/base/error.hpp"
#include "tessera/train/feeding.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

std::string DataFeeder::unit() const {
  return session_.corpus.train->unit();
}

std::int64_t DataFeeder::targets_per_row() const {
  return session_.corpus.train->targets_per_sample();
}

std::string DataFeeder::text() const {
  return session_.settings.data.source + ", " + session_.corpus.text;
}

data::DataIdentity DataFeeder::identity() const {
  return data::identity_of(*session_.corpus.train);
}

std::optional<double> DataFeeder::baseline() const {
  if (!session_.corpus.baseline) return std::nullopt;
  return session_.corpus.baseline();
}

data::Loader& DataFeeder::loader() {
  if (!loader_) {
    const auto config = loader_config(session_, 0);
    loader_ = std::make_unique<data::Loader>(
        session_.corpus.train, config, session_.inputs(session_.compiled.task->first_micro()));
  }
  return *loader_;
}

data::Position DataFeeder::position() const {
  return loader_ ? loader_->position() : data::Position();
}

void DataFeeder::seek(const data::Position& position) {
  loader().seek(position);
}

Status DataFeeder::status() {
  return loader().status();
}

Fed DataFeeder::next() {
  return take_batch(loader(), batch_);
}

void DataFeeder::check_evaluates() const {
  check_user(evaluates(),
             "there are no validation samples: give data.validation or data.validation_fraction");
}

bool DataFeeder::evaluates() const {
  return session_.corpus.validation != nullptr;
}

Evaluation DataFeeder::evaluate(bool all, const StopWatch* watch) {
  return train::evaluate(session_, session_.corpus.validation,
                         all ? 0 : session_.settings.eval.batches, watch);
}

}  // namespace tessera::train

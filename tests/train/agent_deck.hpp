// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::test {

/// A small agent whose sizes divide by few things.
inline const char* const kAgentDeck = R"(
[model]
name = d4pg
hidden = 12
layers = 2
atoms = 11
v_max = 20
policy_lr = 0.002
target_period = 3
[env]
name = pendulum
count = 5
steps_per_update = 2
warmup = 60
replay = 200
priority_exponent = 0.6
n_step = 3
[data]
batch = 12
[optim]
lr = 0.004
clip_norm = 5
[train]
steps = 20
dtype = f64
[eval]
every = 10
episodes = 3
[layout]
rules = batch:batch, environment:batch, hidden:model, atom:model
)";

}  // namespace tessera::test

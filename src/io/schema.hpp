// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/io/checkpoint.hpp"
#include "tessera/io/hdf5.hpp"

/// The checkpoint file's schema (CHECKPOINT.md), apart from how files are written and read.
namespace tessera::io {

inline constexpr const char* kFormat = "tessera checkpoint 1";
inline constexpr const char* kMeta = "/meta";

/// The index of a file with this content; digests[t] of tensor t.
FileIndex index_of(const CheckpointContent& content, const std::vector<Digest>& digests);
/// What an index says of a tensor. UserError if the dataset is no tensor of ours.
Checkpoint::Tensor tensor_of(const DatasetInfo& dataset);
/// Hash of all groups' and datasets' attributes, paths, shapes and types, /meta's own `digest`
/// apart.
std::string metadata_digest(const FileIndex& index);

std::string checkpoint_name(std::int64_t step);  ///< "step_00000042.h5"
/// Step of a file name, or -1 if it is not a checkpoint's.
std::int64_t step_of_name(const std::string& name);

}  // namespace tessera::io

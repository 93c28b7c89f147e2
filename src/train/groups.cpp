// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/groups.hpp"

#include "tessera/base/error.hpp"
#include "tessera/shape/mesh_shape.hpp"

namespace tessera::train {

std::int64_t ranks_of_group(const Settings& settings) {
  if (settings.async.group > 0) return settings.async.group;
  const std::string& shape = settings.mesh.shape;
  if (shape.empty() || shape.find('*') != std::string::npos) return 1;
  return MeshShape::parse(shape, 0).size();
}

Groups cut_into_groups(const Settings& settings, std::int64_t ranks) {
  Groups groups;
  groups.servers = settings.async.servers;
  groups.group = ranks_of_group(settings);
  groups.share = settings.async.staleness == 0;
  const std::int64_t left = ranks - groups.servers;
  check_user(left >= groups.group && left % groups.group == 0, "replicate.mode = async: ", ranks,
             " ranks less replicate.servers = ", groups.servers,
             " servers cannot be cut into groups of ", groups.group,
             "; start with servers + n groups, as ", groups.servers + groups.group, " or ",
             groups.servers + 2 * groups.group, " ranks");
  groups.workers = left / groups.group;
  const std::int64_t parts = settings.train.micro_batches * groups.shares();
  check_user(!groups.share || settings.data.batch % parts == 0,
             "replicate.staleness = 0: data.batch = ", settings.data.batch, " cannot be shared by ",
             groups.workers, " groups of train.micro_batches = ", settings.train.micro_batches,
             ": make it a multiple of ", parts);
  return groups;
}

}  // namespace tessera::train

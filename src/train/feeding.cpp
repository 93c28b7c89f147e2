// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/feeding.hpp"

#include "tessera/base/error.hpp"

namespace tessera::train {

Fed take_batch(data::Loader& loader, const std::optional<data::Batch>& last) {
  Fed fed;
  fed.status = loader.status();
  if (fed.status.ok())
    fed.batch = loader.next();
  else
    fed.batch = last;
  return fed;
}

void set_inputs(const Session& session, const std::string& section,
                const std::vector<data::TileData>& tiles) {
  auto& executor = *session.executor;
  for (const auto& input : session.compiled.program.section(section).inputs) {
    for (int r = 0; r < executor.local_ranks(); ++r) {
      const auto& tile = tiles[static_cast<std::size_t>(r)];
      const void* values = nullptr;
      if (input.name == "tokens") values = tile.tokens.data();
      if (input.name == "targets") values = tile.targets.data();
      if (input.name == "weights") values = tile.weights.data();
      TESSERA_CHECK(values || tile.tokens.empty(), "section ", section, " has the input ",
                    input.name, " that the data do not give");
      executor.set_input(section, input.name, r, values);
    }
  }
}

}  // namespace tessera::train

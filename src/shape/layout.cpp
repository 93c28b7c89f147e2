// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/layout.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera {

Layout::Layout(std::vector<Rule> rules) {
  for (auto& rule : rules) {
    const auto earlier = mesh_dim_of(rule.first);
    if (earlier == rule.second) continue;
    check_user(!earlier, "layout.rules: tensor dim '", rule.first, "' is mapped to both '",
               earlier.value_or(""), "' and '", rule.second,
               "'; a tensor dim goes to at most one mesh dim, so drop one of the two rules");
    rules_.push_back(std::move(rule));
  }
}

Layout Layout::parse(std::string_view text) {
  std::string commas(text);
  std::replace(commas.begin(), commas.end(), ';', ',');
  std::vector<Rule> rules;
  for (const auto& piece : tessera::split(commas, ',')) {
    if (piece.empty()) continue;
    const auto parts = tessera::split(piece, ':');
    check_user(parts.size() == 2 && !parts[0].empty() && !parts[1].empty(), "layout.rules: '",
               piece, "' is not of the form tensor_dim:mesh_dim, e.g. batch:batch, d_ff:model");
    rules.emplace_back(parts[0], parts[1]);
  }
  return Layout(std::move(rules));
}

std::optional<std::string> Layout::mesh_dim_of(std::string_view tensor_dim) const {
  for (const auto& [from, to] : rules_)
    if (from == tensor_dim) return to;
  return std::nullopt;
}

std::vector<std::string> Layout::mesh_dims() const {
  std::vector<std::string> names;
  for (const auto& rule : rules_)
    if (std::find(names.begin(), names.end(), rule.second) == names.end())
      names.push_back(rule.second);
  return names;
}

Placement Layout::placement(const std::string& tensor_name, const Shape& shape,
                            const MeshShape& mesh) const {
  Placement placement(mesh.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    const auto name = mesh_dim_of(shape[i].name);
    if (!name) continue;
    const auto m = mesh.find(*name);
    if (!m) continue;
    if (placement[*m].is_split()) {
      const std::string& other = shape[placement[*m].dim].name;
      std::string free;
      for (const auto& dim : mesh.dims())
        if (std::none_of(shape.begin(), shape.end(),
                         [&](const Dim& d) { return mesh_dim_of(d.name) == dim.name; }))
          free = dim.name;
      throw UserError(concat(
          "layout.rules: tensor '", tensor_name, "' ", shape.to_string(),
          " has two dims on mesh dim '", *name, "': '", other, "' (rule ", other, ":", *name,
          ") and '", shape[i].name, "' (rule ", shape[i].name, ":", *name,
          "); drop one of these rules",
          free.empty() ? std::string()
                       : concat(" or map it to '", free, "', e.g. ", shape[i].name, ":", free)));
    }
    placement[*m] = State::split(i);
  }
  return placement;
}

void Layout::check_names(const MeshShape& mesh, const std::vector<std::string>& tensor_dims) const {
  std::vector<std::string> mesh_names;
  for (const auto& dim : mesh.dims()) mesh_names.push_back(dim.name);
  for (const auto& [from, to] : rules_) {
    if (!mesh.find(to)) {
      const std::string extended = mesh.to_string() + (mesh.rank() ? "," : "") + to + ":1";
      throw UserError(concat("layout.rules: rule ", from, ":", to, " names mesh dim '", to,
                             "', which mesh.shape = ", mesh.to_string(), " lacks",
                             did_you_mean(to, mesh_names), "; add it, e.g. --mesh.shape=", extended,
                             ", or drop the rule"));
    }
    check_user(std::find(tensor_dims.begin(), tensor_dims.end(), from) != tensor_dims.end(),
               "layout.rules: rule ", from, ":", to, " names tensor dim '", from,
               "', which no tensor of the model has", did_you_mean(from, tensor_dims),
               "; the model's dims are ", join(tensor_dims, ", "));
  }
}

std::string Layout::to_string() const {
  std::vector<std::string> pieces;
  for (const auto& [from, to] : rules_) pieces.push_back(from + ":" + to);
  return join(pieces, ", ");
}

MeshShape resolve_mesh(std::string_view text, const Layout& layout, std::int64_t ranks) {
  if (!trim(text).empty()) return MeshShape::parse(text, ranks);
  std::vector<Dim> dims;
  for (const auto& name : layout.mesh_dims()) dims.push_back({name, dims.empty() ? ranks : 1});
  if (dims.empty() && ranks > 1)
    throw UserError(concat("layout.rules is empty, so ", ranks,
                           " ranks have nothing to share; give a rule and a mesh, e.g. "
                           "--layout.rules=batch:batch --mesh.shape=batch:",
                           ranks));
  return MeshShape(std::move(dims));
}

}  // namespace tessera

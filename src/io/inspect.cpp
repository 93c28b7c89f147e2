// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/inspect.hpp"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "io/posix_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

std::string resolve(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return path;
  for (const std::string& folder : {path + "/checkpoints", path}) {
    const std::vector<std::string> files = find_checkpoints(folder);
    if (!files.empty()) return files.front();
  }
  throw UserError(concat(path, " holds no checkpoint (step_*.h5)"));
}

/// Digest of a whole tensor in the file, a window at a time.
Digest digest_in_file(const PosixFile& file, const Checkpoint::Tensor& tensor) {
  constexpr std::int64_t kWindow = 1 << 21;  // elements
  const auto bytes = static_cast<std::int64_t>(bytes_of(tensor.spec.dtype));
  const std::int64_t size = tensor.spec.shape.size();
  const Shape flat{{"element", size}};
  std::vector<char> window;
  Digest digest;
  for (std::int64_t begin = 0; begin < size; begin += kWindow) {
    const std::int64_t end = std::min(size, begin + kWindow);
    window.resize(static_cast<std::size_t>((end - begin) * bytes));
    file.read(window.data(), window.size(), tensor.offset + begin * bytes);
    digest += digest_tile(tensor.spec.dtype, flat, {{begin, end}}, window.data());
  }
  return digest;
}

struct Finding {
  const Checkpoint::Tensor* tensor;
  std::string fault;  ///< "" if its digest is right
};

std::vector<Finding> examine(const Checkpoint& checkpoint) {
  const PosixFile file(checkpoint.file(), O_RDONLY);
  std::vector<Finding> findings;
  for (const auto& tensor : checkpoint.tensors()) {
    Finding finding{&tensor, ""};
    try {
      const Digest digest = digest_in_file(file, tensor);
      if (!(digest == tensor.digest)) {
        finding.fault =
            concat("digest is ", digest.to_string(), ", recorded is ", tensor.digest.to_string());
      }
    } catch (const std::exception& error) {
      finding.fault = error.what();
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::int64_t bytes_of(const TensorSpec& spec) {
  return spec.shape.size() * static_cast<std::int64_t>(tessera::bytes_of(spec.dtype));
}

struct ToText {
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return format_double(value); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    std::vector<std::string> pieces;
    for (std::int64_t value : values) pieces.push_back(std::to_string(value));
    return join(pieces, ", ");
  }
};

/// Texts of several lines (the deck) are indented below their name.
std::string describe_attribute(const std::string& name, const Attribute& attribute) {
  const std::string value = std::visit(ToText{}, attribute);
  if (value.find('\n') == std::string::npos) return concat("    ", name, " = ", value, '\n');
  std::string text = concat("    ", name, ":\n");
  std::istringstream lines(value);
  for (std::string line; std::getline(lines, line);) text += concat("      ", line, '\n');
  return text;
}

std::string as_text(const Checkpoint& checkpoint, const std::vector<Finding>& findings) {
  std::string text = concat(checkpoint.file(), "\n  step ", checkpoint.step(), '\n');
  for (const auto& [group, attributes] : checkpoint.groups()) {
    if (attributes.entries().empty()) continue;
    text += concat("  ", group, '\n');
    for (const auto& [name, value] : attributes.entries()) text += describe_attribute(name, value);
  }
  std::size_t width = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.tensor->path.size());
  text += "  tensors\n";
  for (const auto& [tensor, fault] : findings) {
    const std::string padding(width - tensor->path.size() + 2, ' ');
    text += concat("    ", tensor->path, padding, tensor->spec.shape.to_string(), ' ',
                   name_of(tensor->spec.dtype), fault.empty() ? "" : concat("  DAMAGED: ", fault),
                   '\n');
    elements += tensor->spec.shape.size();
    bytes += bytes_of(tensor->spec);
  }
  const auto damaged = std::count_if(findings.begin(), findings.end(),
                                     [](const Finding& f) { return !f.fault.empty(); });
  text += concat("  ", findings.size(), " tensors, ", with_commas(elements), " elements, ",
                 format_bytes(static_cast<double>(bytes)), ": ",
                 damaged == 0 ? std::string("whole, all digests are right")
                              : concat("NOT WHOLE, ", damaged, " tensors are damaged"),
                 '\n');
  return text;
}

void add_attribute(JsonWriter& json, const Attribute& attribute) {
  if (const auto* values = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    json.begin_array();
    for (std::int64_t value : *values) json.value(value);
    json.end_array();
  } else if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
    json.value(*integer);
  } else if (const auto* real = std::get_if<double>(&attribute)) {
    json.value(*real);
  } else {
    json.value(std::get<std::string>(attribute));
  }
}

void add_tensor(JsonWriter& json, const Finding& finding) {
  const Checkpoint::Tensor& tensor = *finding.tensor;
  json.begin_object().key("path").value(tensor.path).key("dims").begin_array();
  for (const Dim& dim : tensor.spec.shape) json.value(dim.name);
  json.end_array().key("shape").begin_array();
  for (const Dim& dim : tensor.spec.shape) json.value(dim.size);
  json.end_array().key("dtype").value(name_of(tensor.spec.dtype));
  json.key("bytes").value(bytes_of(tensor.spec)).key("digest").value(tensor.digest.to_string());
  json.key("whole").value(finding.fault.empty());
  if (!finding.fault.empty()) json.key("fault").value(finding.fault);
  json.end_object();
}

std::string as_json(const Checkpoint& checkpoint, const std::vector<Finding>& findings,
                    bool whole) {
  JsonWriter json;
  json.begin_object().key("file").value(checkpoint.file()).key("step").value(checkpoint.step());
  json.key("whole").value(whole).key("attributes").begin_object();
  for (const auto& [group, attributes] : checkpoint.groups()) {
    if (attributes.entries().empty()) continue;
    json.key(group).begin_object();
    for (const auto& [name, value] : attributes.entries()) {
      json.key(name);
      add_attribute(json, value);
    }
    json.end_object();
  }
  json.end_object().key("tensors").begin_array();
  for (const Finding& finding : findings) add_tensor(json, finding);
  json.end_array().end_object();
  return json.text() + '\n';
}

}  // namespace

Inspection inspect_checkpoint(const std::string& file, bool json) {
  const Checkpoint checkpoint(resolve(file));
  const std::vector<Finding> findings = examine(checkpoint);
  Inspection inspection;
  for (const Finding& finding : findings) {
    inspection.whole = inspection.whole && finding.fault.empty();
  }
  inspection.text =
      json ? as_json(checkpoint, findings, inspection.whole) : as_text(checkpoint, findings);
  return inspection;
}

}  // namespace tessera::io

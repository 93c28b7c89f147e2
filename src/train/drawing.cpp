// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/drawing.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/io/arrays_file.hpp"

namespace tessera::train {
namespace {

constexpr const char* kSection = "draw";

/// A field of all samples, to which runs of the section add their rows.
class Field {
 public:
  Field(const program::Section& section, const program::NamedBuffer& fetch, std::int64_t count)
      : name_(fetch.name), left_(count) {
    const auto& spec = section.buffers[static_cast<std::size_t>(fetch.buffer)].spec;
    const bool integers = spec.dtype == DType::i32;
    array_.path = "/train/" + name_;
    array_.type = {
        integers ? io::ElementType::Kind::signed_integer : io::ElementType::Kind::floating, 4};
    for (const auto& dim : spec.shape) array_.shape.push_back(dim.size);
    rows_ = array_.shape.at(0);
    array_.shape[0] = count;
  }

  void add_rows(const Session& session) {
    const auto values = session.executor->fetch(kSection, name_, 0);
    const std::size_t row = values.size() / static_cast<std::size_t>(rows_);
    const std::int64_t rows = std::min(rows_, left_);
    left_ -= rows;
    for (std::size_t i = 0; i < row * static_cast<std::size_t>(rows); ++i)
      if (array_.type.kind == io::ElementType::Kind::floating)
        append(static_cast<float>(values[i]));
      else
        append(static_cast<std::int32_t>(values[i]));
  }

  io::HostArray take() { return std::move(array_); }

 private:
  template <class Element>
  void append(Element element) {
    const auto* bytes = reinterpret_cast<const char*>(&element);
    array_.bytes.insert(array_.bytes.end(), bytes, bytes + sizeof element);
  }

  std::string name_;
  io::HostArray array_;
  std::int64_t rows_ = 0;  // of one run
  std::int64_t left_ = 0;
};

std::string file_of_step(const Session& session, std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld.h5", static_cast<long long>(step));
  return (std::filesystem::path(session.settings.run_file("samples")) / name).string();
}

}  // namespace

bool can_draw(const Session& session) {
  return session.compiled.program.has_section(kSection);
}

std::string draw_samples(const Session& session, std::int64_t step) {
  const std::int64_t count = session.settings.sample.count;
  const auto& section = session.compiled.program.section(kSection);
  std::vector<Field> fields;
  for (const auto& fetch : section.fetches) fields.emplace_back(section, fetch, count);
  const std::int64_t rows = session.compiled.task->config().draw.rows;
  for (std::int64_t run = 0; run * rows < count; ++run) {
    kernels::Feeds feeds;
    feeds.micro = run;
    feeds.values["first"] = static_cast<double>(run * rows);
    session.executor->run(kSection, feeds);
    // Every rank holds the whole result; only one writes it.
    if (session.backend.is_root())
      for (auto& field : fields) field.add_rows(session);
  }
  const std::string file = file_of_step(session, step);
  comm::agree_on(session.backend.world(), [&] {
    if (!session.backend.is_root()) return;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::vector<io::HostArray> arrays;
    for (auto& field : fields) arrays.push_back(field.take());
    io::write_arrays(file, arrays);
  });
  return file;
}

}  // namespace tessera::train

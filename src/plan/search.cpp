// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/search.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

#include "tessera/base/text.hpp"

namespace tessera::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Ordered factorisations of `ranks` into `count` factors above 1.
std::vector<std::vector<std::int64_t>> factorisations(std::int64_t ranks, int count) {
  if (count == 1) return {{ranks}};
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 2; first <= ranks / 2; ++first) {
    if (ranks % first != 0) continue;
    for (auto rest : factorisations(ranks / first, count - 1)) {
      if (rest.back() == 1) continue;
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

/// A point of the search: for each dim the mesh dim that cuts it, or -1.
struct Point {
  MeshShape mesh;
  std::vector<int> mapped;
  int shard = -1;
  int store = -1;
  std::size_t micro = 0;
  std::size_t recompute = 0;

  bool operator<(const Point& other) const { return key() < other.key(); }
  std::string key() const {
    std::string key = mesh.to_string() + "|";
    for (int m : mapped) key += std::to_string(m) + ",";
    return key + "|" + std::to_string(shard) + "|" + std::to_string(store) + "|" +
           std::to_string(micro) + "|" + std::to_string(recompute);
  }
};

struct Scored {
  Point point;
  Evaluation evaluation;
  double score = kNever;
};

class Searcher {
 public:
  Searcher(const DimConflicts& dims, const SearchOptions& options, const Evaluate& evaluate)
      : dims_(dims), options_(options), evaluate_(evaluate), begin_(options.now()) {}

  SearchResult run() {
    for (const auto& seed : options_.seeds) offer(seed);
    for (int count = 1; count <= 3 && !late(); ++count) explore(meshes(count));
    result_.finished = !late();
    collect();
    return std::move(result_);
  }

 private:
  bool late() const { return options_.now() - begin_ > options_.time_limit; }

  std::vector<MeshShape> meshes(int count) {
    std::vector<MeshShape> list;
    if (options_.ranks == 1 && count > 1) return list;
    for (const auto& sizes : factorisations(options_.ranks, count)) {
      std::vector<Dim> dims;
      for (std::size_t i = 0; i < sizes.size(); ++i) dims.push_back({name(i), sizes[i]});
      list.emplace_back(std::move(dims));
    }
    result_.meshes += list.size();
    return list;
  }
  std::string name(std::size_t i) const {
    static const char* const defaults[] = {"rows", "columns", "planes"};
    std::vector<std::string> names = options_.mesh_names;
    for (const char* more : defaults)
      if (std::find(names.begin(), names.end(), more) == names.end()) names.emplace_back(more);
    return names[i];
  }

  /// Meshes in the order of what their first layouts promise, each climbed to its top.
  void explore(const std::vector<MeshShape>& meshes) {
    std::vector<Scored> starts = std::move(offered_);
    offered_.clear();
    for (const auto& mesh : meshes)
      if (const auto start = best_start(mesh)) starts.push_back(*start);
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Scored& a, const Scored& b) { return a.score < b.score; });
    for (const auto& start : starts)
      if (climb(start)) ++result_.meshes_explored;
  }

  std::optional<Scored> best_start(const MeshShape& mesh) {
    std::optional<Scored> best;
    for (int first = 0; first < mesh.rank(); ++first)
      for (bool model_only : {false, true}) {
        if (late()) return best;
        const auto scored = score(greedy(mesh, first, model_only));
        if (scored && (!best || scored->score < best->score)) best = scored;
      }
    return best;
  }

  /// The first dim that can be cut (the batch) goes to one mesh dim, every other dim where no
  /// tensor forbids it. `model_only`: the batch stays whole.
  Point greedy(const MeshShape& mesh, int first, bool model_only) const {
    Point point = empty(mesh);
    const auto batch = std::find(dims_.dims().begin(), dims_.dims().end(), "batch");
    if (batch != dims_.dims().end() && !model_only)
      point.mapped[static_cast<std::size_t>(batch - dims_.dims().begin())] = first;
    for (int turn = 0; turn < mesh.rank(); ++turn) {
      const int m = (first + 1 + turn) % mesh.rank();
      // Dims of weights that share no tensor are cut over the same mesh dim, the larger first.
      for (std::size_t d = 0; d < point.mapped.size(); ++d)
        if (point.mapped[d] < 0 && dims_.dims()[d] != "batch" && fits(point, d, m))
          point.mapped[d] = m;
      if (!model_only && mesh.rank() > 1) break;
    }
    return point;
  }
  Point empty(const MeshShape& mesh) const {
    Point point;
    point.mesh = mesh;
    point.mapped.assign(dims_.dims().size(), -1);
    return point;
  }
  bool fits(const Point& point, std::size_t dim, int m) const {
    for (std::size_t other = 0; other < point.mapped.size(); ++other)
      if (other != dim && point.mapped[other] == m &&
          dims_.conflict(dims_.dims()[dim], dims_.dims()[other]))
        return false;
    return true;
  }

  Candidate candidate_of(const Point& point) const {
    Candidate candidate;
    candidate.mesh = point.mesh;
    std::vector<Layout::Rule> rules;
    for (std::size_t d = 0; d < point.mapped.size(); ++d)
      if (point.mapped[d] >= 0)
        rules.emplace_back(dims_.dims()[d], point.mesh[point.mapped[d]].name);
    candidate.layout = Layout(std::move(rules));
    if (point.shard >= 0) candidate.shard = point.mesh[point.shard].name;
    if (point.store >= 0) candidate.store = point.mesh[point.store].name;
    candidate.micro_batches = options_.micro_batches[point.micro];
    candidate.recompute = options_.recompute[point.recompute];
    return candidate;
  }

  double score_of(const Point& point, const Evaluation& evaluation) const {
    const auto bytes = static_cast<double>(evaluation.bytes);
    if (options_.objective == Objective::memory) {
      const auto rules = static_cast<double>(
          std::count_if(point.mapped.begin(), point.mapped.end(), [](int m) { return m >= 0; }));
      return bytes - 0.01 * rules;
    }
    // What does not fit is worse than anything that does, and the worse the more it needs.
    constexpr double kTooLarge = 1e15;
    if (options_.memory_limit > 0 && bytes > options_.memory_limit) return kTooLarge + bytes;
    // Of equals the one with fewer choices.
    const auto choices = static_cast<double>(
        std::count_if(point.mapped.begin(), point.mapped.end(), [](int m) { return m >= 0; }) +
        (point.shard >= 0) + (point.store >= 0) + static_cast<std::ptrdiff_t>(point.recompute));
    return evaluation.predicted.step * (1 + 1e-7 * choices);
  }

  std::optional<Scored> score(const Point& point) {
    const std::string key = point.key();
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    std::optional<Scored> scored;
    if (const auto evaluation = evaluate_(candidate_of(point))) {
      scored = Scored{point, *evaluation, score_of(point, *evaluation)};
      ++result_.evaluated;
    }
    known_.emplace(key, scored);
    return scored;
  }

  /// Takes each change that helps as soon as it is found, and goes on with the next kind of change:
  /// looking at all of them before each move costs several times as many plans. Ends when a whole
  /// round brought nothing. False if the time was up.
  bool climb(Scored here) {
    auto changes = neighbours(here.point);
    std::size_t next = 0, tried = 0;
    while (tried++ < changes.size()) {
      if (late()) return false;
      const auto scored = score(changes[next++ % changes.size()]);
      if (!scored || scored->score >= here.score) continue;
      here = *scored;
      changes = neighbours(here.point);
      tried = 0;
    }
    return true;
  }

  /// Points that differ in one choice; a dim that takes a mesh dim drives out those that cannot
  /// stay there.
  std::vector<Point> neighbours(const Point& point) const {
    std::vector<Point> list;
    for (std::size_t d = 0; d < point.mapped.size(); ++d)
      for (int m = -1; m < point.mesh.rank(); ++m) {
        if (m == point.mapped[d]) continue;
        Point next = point;
        next.mapped[d] = m;
        for (std::size_t other = 0; m >= 0 && other < next.mapped.size(); ++other)
          if (other != d && next.mapped[other] == m &&
              dims_.conflict(dims_.dims()[d], dims_.dims()[other]))
            next.mapped[other] = -1;
        list.push_back(std::move(next));
      }
    if (options_.objective == Objective::memory) return list;
    for (int Point::*split : {&Point::shard, &Point::store})
      for (int m = -1; m < point.mesh.rank(); ++m)
        if (m != point.*split) {
          list.push_back(point);
          list.back().*split = m;
        }
    const auto vary = [&](std::size_t Point::*choice, std::size_t count) {
      for (std::size_t value = 0; value < count; ++value)
        if (value + 1 == point.*choice || value == point.*choice + 1) {
          list.push_back(point);
          list.back().*choice = value;
        }
    };
    vary(&Point::micro, options_.micro_batches.size());
    vary(&Point::recompute, options_.recompute.size());
    return list;
  }

  /// A choice of others, if it is in the space that is searched; mesh dims of one rank say nothing.
  void offer(const Candidate& seed) {
    if (seed.mesh.size() != options_.ranks) return;
    std::vector<Dim> dims;
    for (const auto& dim : seed.mesh.dims())
      if (dim.size > 1) dims.push_back(dim);
    Point point = empty(MeshShape(std::move(dims)));
    for (std::size_t d = 0; d < point.mapped.size(); ++d)
      if (const auto name = seed.layout.mesh_dim_of(dims_.dims()[d]))
        if (const auto m = point.mesh.find(*name)) point.mapped[d] = *m;
    if (const auto m = point.mesh.find(seed.shard)) point.shard = *m;
    if (const auto m = point.mesh.find(seed.store)) point.store = *m;
    const auto micro =
        std::find(options_.micro_batches.begin(), options_.micro_batches.end(), seed.micro_batches);
    if (micro != options_.micro_batches.end())
      point.micro = static_cast<std::size_t>(micro - options_.micro_batches.begin());
    const auto recompute =
        std::find(options_.recompute.begin(), options_.recompute.end(), seed.recompute);
    if (recompute != options_.recompute.end())
      point.recompute = static_cast<std::size_t>(recompute - options_.recompute.begin());
    if (const auto start = score(point)) offered_.push_back(*start);
  }

  void collect() {
    std::vector<Scored> list;
    for (const auto& [key, scored] : known_)
      if (scored) list.push_back(*scored);
    std::stable_sort(list.begin(), list.end(),
                     [](const Scored& a, const Scored& b) { return a.score < b.score; });
    std::set<std::string> told;  // plans that differ by rules without effect are told once
    for (const auto& scored : list) {
      if (result_.best.size() == options_.top) break;
      char effect[64];
      std::snprintf(effect, sizeof effect, "%.4e %lld", scored.evaluation.predicted.step,
                    static_cast<long long>(scored.evaluation.bytes >> 16));
      if (!told.insert(scored.point.mesh.to_string() + effect).second) continue;
      result_.best.push_back({candidate_of(scored.point), scored.evaluation,
                              reason(scored.evaluation, list.front().evaluation)});
    }
  }

  std::string reason(const Evaluation& here, const Evaluation& best) const {
    char text[256];
    const auto gibi = [](double bytes) { return format_bytes(bytes); };
    const auto &mine = here.predicted, &least = best.predicted;
    std::string limit;
    if (options_.memory_limit > 0 && static_cast<double>(here.bytes) > options_.memory_limit)
      limit = ", more than plan.memory_limit";
    if (&here == &best || mine.step == least.step)
      std::snprintf(text, sizeof text, "%.4g s: %.4g s of work, %.4g s of communication, %s a rank",
                    mine.step, mine.compute, mine.exposed,
                    gibi(static_cast<double>(here.bytes)).c_str());
    else
      std::snprintf(text, sizeof text,
                    "%+.1f %% time: %+.3g s of work, %+.3g s of communication, %s a rank",
                    100 * (mine.step / least.step - 1), mine.compute - least.compute,
                    mine.exposed - least.exposed, gibi(static_cast<double>(here.bytes)).c_str());
    return text + limit;
  }

  const DimConflicts& dims_;
  const SearchOptions& options_;
  const Evaluate& evaluate_;
  double begin_;
  std::map<std::string, std::optional<Scored>> known_;
  std::vector<Scored> offered_;
  SearchResult result_;
};

}  // namespace

std::string Candidate::to_string() const {
  std::string text = "mesh " + mesh.to_string() + "  layout " + layout.to_string();
  if (!shard.empty()) text += "  shard " + shard;
  if (!store.empty()) text += "  store " + store;
  if (micro_batches > 1) text += "  micro_batches " + std::to_string(micro_batches);
  if (recompute != "none") text += "  recompute " + recompute;
  return text;
}

DimConflicts::DimConflicts(const VariableSet& variables, const std::vector<const Graph*>& graphs) {
  std::map<std::string, std::int64_t> sizes;
  const auto offer = [&](const Shape& shape) {
    for (const auto& dim : shape)
      if (dim.size > 1) sizes[dim.name] = std::max(sizes[dim.name], dim.size);
  };
  std::set<std::string> pairs;
  const auto pair_up = [&](const Shape& shape) {
    for (const auto& a : shape)
      for (const auto& b : shape)
        if (a.name < b.name) pairs.insert(a.name + "\n" + b.name);
  };
  for (const auto& variable : variables) {
    if (variable.kind == Variable::Kind::weight || variable.kind == Variable::Kind::state)
      offer(variable.spec.shape);
    pair_up(variable.spec.shape);
  }
  for (const Graph* graph : graphs)
    for (int t = 0; t < graph->tensor_count(); ++t) {
      const auto& info = graph->info(t);
      if (info.is_input) offer(info.spec.shape);
      pair_up(info.spec.shape);
    }
  pairs_.assign(pairs.begin(), pairs.end());
  for (const auto& [name, size] : sizes) dims_.push_back(name);
  std::stable_sort(dims_.begin(), dims_.end(), [&](const std::string& a, const std::string& b) {
    return sizes.at(a) > sizes.at(b);
  });
}

bool DimConflicts::conflict(const std::string& a, const std::string& b) const {
  return std::binary_search(pairs_.begin(), pairs_.end(), a < b ? a + "\n" + b : b + "\n" + a);
}

SearchResult search(const DimConflicts& dims, const SearchOptions& options,
                    const Evaluate& evaluate) {
  return Searcher(dims, options, evaluate).run();
}

}  // namespace tessera::plan

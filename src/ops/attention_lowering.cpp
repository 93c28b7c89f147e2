// SPDX-License-Identifier: BSD-3-Clause
#include "attention_lowering.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/mean_share.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::ops {
namespace {

using program::BufferId;

/// A set of keys with their values, and room for the gradients of both.
struct Keys {
  BufferId k = -1, v = -1, segments = -1;
  BufferId dk = -1, dv = -1;
};

/// Multiply-adds of a product, twice, on the rank that has most to do, and the share of it that
/// ranks have on average.
struct Work {
  double product_flops = 0;
  double mean_share = 1;
};

class Lowering {
 public:
  /// `first`: place of q among the inputs; the gradient has dout before it, and out and lse behind.
  Lowering(program::Emitter& emitter, const Attributes& attributes, int first)
      : emitter_(emitter), attributes_(attributes), first_(first) {
    int next = first + (backward() ? 5 : 3);
    own_.k = emitter.input(first + 1), own_.v = emitter.input(first + 2);
    if (has(attributes, "segments")) {
      query_segments_ = emitter.input(next);
      own_.segments = emitter.input(next + 1);
      next += 2;
    }
    if (has(attributes, "bias")) bias_ = emitter.input(next);
    result_ = emitter.output(0);
    if (backward()) own_.dk = emitter.output(1), own_.dv = emitter.output(2);
  }

  void run() {
    const auto cuts = emitter_.buffer(own_.k).placement.mesh_dims_splitting(1);
    if (cuts.empty()) {
      compute(own_, false, whole_work());
    } else if (attributes_.integer("window") > 0) {
      run_window();
    } else {
      TESSERA_CHECK(cuts.size() == 1, "attention: keys that ", cuts.size(), " mesh dims cut");
      run_ring(cuts[0]);
    }
  }

 private:
  bool backward() const { return first_ > 0; }
  DType dtype() const { return emitter_.buffer(own_.k).spec.dtype; }
  /// Sums that go on from one part of the keys to the next are kept in this type.
  DType wide() const { return statistics_dtype(dtype()); }

  /// One kernel on some keys, which is so much work.
  void compute(const Keys& keys, bool accumulate, const Work& work) {
    std::vector<BufferId> inputs, outputs{result_};
    if (backward()) inputs.push_back(emitter_.input(0));
    inputs.insert(inputs.end(), {emitter_.input(first_), keys.k, keys.v});
    if (backward()) {
      inputs.insert(inputs.end(), {emitter_.input(first_ + 3), emitter_.input(first_ + 4)});
      outputs.insert(outputs.end(), {keys.dk, keys.dv});
      if (bias_ >= 0) outputs.push_back(emitter_.output(3));
    } else {
      outputs.push_back(emitter_.output(1));
    }
    if (keys.segments >= 0) inputs.insert(inputs.end(), {query_segments_, keys.segments});
    if (bias_ >= 0) inputs.push_back(bias_);
    Attributes attributes = attributes_;
    attributes.set("accumulate", static_cast<std::int64_t>(accumulate));
    if (work.mean_share < 1) attributes.set(program::kMeanShare, work.mean_share);
    emitter_.kernel(backward() ? "attention_backward" : "attention_forward", std::move(attributes),
                    std::move(inputs), std::move(outputs), options(keys, work));
  }

  program::Emitter::KernelOptions options(const Keys& keys, const Work& work) const {
    const Shape q = emitter_.local_shape(emitter_.input(first_));
    const Shape k = emitter_.local_shape(keys.k);
    program::AttentionSize size{.batch = q[0].size,
                                .queries = q[1].size,
                                .keys = k[1].size,
                                .heads = q[2].size,
                                .group = q.rank() == 5 ? q[3].size : 1,
                                .depth = q[q.rank() - 1].size};
    if (bias_ >= 0) {
      const Shape& bias = emitter_.buffer(bias_).spec.shape;
      size.buckets = bias[bias.rank() - 1].size;
    }
    program::Emitter::KernelOptions options;
    options.workspace_bytes = backward() ? program::attention_backward_workspace(dtype(), size)
                                         : program::attention_forward_workspace(dtype(), size);
    options.flops = (backward() ? 5 : 2) * work.product_flops;
    return options;
  }

  Shape local(int input) const { return emitter_.local_shape(emitter_.input(input)); }
  bool is_causal() const { return has(attributes_, "causal"); }

  /// Whole keys. If the queries are cut, a causal mask leaves the last of them most to do.
  Work whole_work() const {
    const Shape q = local(first_), k = local(first_ + 1);
    const auto cuts = emitter_.buffer(emitter_.input(first_)).placement.mesh_dims_splitting(1);
    const double mean = attention_product_flops(q, k, attributes_);
    if (cuts.empty() || !is_causal() || attributes_.integer("window") > 0) return {mean, 1};
    const auto queries =
        static_cast<double>(emitter_.buffer(emitter_.input(first_)).spec.shape[1].size);
    const auto own = static_cast<double>(q[1].size), keys = static_cast<double>(k[1].size);
    // Of the keys the last queries see all but half of those at their own places.
    const double most =
        2 * static_cast<double>(q.size()) * std::max(0.0, keys - 0.5 * own * keys / queries);
    return most > 0 ? Work{most, mean / most} : Work{mean, 1};
  }
  /// Keys from [first, last] places further on, on the ring. A causal mask hides the keys of the
  /// ranks behind: the last rank sees all that pass, the first none.
  Work ring_work(std::int64_t ways, std::int64_t first, std::int64_t last) const {
    const Shape q = local(first_), k = local(first_ + 1);
    const double all = 2 * static_cast<double>(q.size()) * static_cast<double>(k[1].size);
    if (!is_causal()) return {all, 1};
    if (last == 0) return {0.5 * all, 1};
    const double places = 0.5 * static_cast<double>(first + last);
    return {all, places / static_cast<double>(ways)};
  }

  /// The neighbours' keys that this rank's queries see, and back what their gradients are here.
  void run_window() {
    const auto windows = [&](BufferId id) {
      const Shape& shape = emitter_.buffer(id).spec.shape;
      Windows result(static_cast<std::size_t>(shape.rank()), Window::plain());
      result[1] = attention_window(attributes_, shape[1].size);
      return result;
    };
    Keys seen;
    seen.k = emitter_.exchange(own_.k, windows(own_.k));
    seen.v = emitter_.exchange(own_.v, windows(own_.v));
    if (own_.segments >= 0)
      seen.segments = emitter_.exchange(own_.segments, windows(own_.segments));
    if (backward()) {
      seen.dk = emitter_.windowed(own_.dk, windows(own_.dk));
      seen.dv = emitter_.windowed(own_.dv, windows(own_.dv));
    }
    compute(seen, false,
            {attention_product_flops(local(first_), emitter_.local_shape(seen.k), attributes_), 1});
    if (!backward()) return;
    emitter_.accumulate(seen.dk, own_.dk);
    emitter_.accumulate(seen.dv, own_.dv);
  }

  /// A buffer like `like`, in the type of sums.
  BufferId wide_like(const char* name, BufferId like) {
    TensorSpec spec = emitter_.buffer(like).spec;
    spec.dtype = wide();
    return emitter_.temporary(name, spec, emitter_.buffer(like).placement);
  }

  /// The queries stay, the keys of all ranks pass. Own keys first; they are left as they are, so
  /// the others travel in memory of their own. The last move brings the gradients home.
  void run_ring(int mesh_dim) {
    const std::int64_t ways = emitter_.mesh()[mesh_dim].size;
    const BufferId result = result_;
    if (wide() != dtype()) result_ = wide_like("sum", result);
    Keys at_home = own_, travelling;
    if (backward()) {
      travelling.dk = wide_like("dk", own_.dk), travelling.dv = wide_like("dv", own_.dv);
      at_home.dk = travelling.dk, at_home.dv = travelling.dv;
    }
    compute(at_home, false, ring_work(ways, 0, 0));
    travelling.k = like("k", own_.k), travelling.v = like("v", own_.v);
    if (own_.segments >= 0) travelling.segments = like("segments", own_.segments);
    const Keys first = after(travelling, mesh_dim, 1), second = after(travelling, mesh_dim, 2);
    move(mesh_dim, at_home, first);
    compute(first, true, ring_work(ways, 1, 1));
    // In iteration i the keys come from i + 1 places further on to i + 2.
    emitter_.repeat(ways - 2, [&] {
      move(mesh_dim, first, second);
      compute(second, true, ring_work(ways, 2, ways - 1));
    });
    if (backward()) bring_home(mesh_dim, after(travelling, mesh_dim, ways - 1), travelling);
    if (result_ != result) emitter_.copy(result_, result);
  }

  BufferId like(const char* name, BufferId buffer) {
    return emitter_.temporary(name, emitter_.buffer(buffer).spec,
                              emitter_.buffer(buffer).placement);
  }
  Keys after(const Keys& keys, int mesh_dim, std::int64_t places) {
    Keys result;
    const auto pass = [&](BufferId id) {
      return id < 0 ? id : emitter_.passing(id, mesh_dim, places);
    };
    result.k = pass(keys.k), result.v = pass(keys.v), result.segments = pass(keys.segments);
    result.dk = pass(keys.dk), result.dv = pass(keys.dv);
    return result;
  }
  /// One message for all tensors of one type.
  void move(int mesh_dim, const Keys& from, const Keys& to) {
    std::vector<BufferId> inputs{from.k, from.v}, outputs{to.k, to.v};
    if (backward() && wide() != dtype()) {
      emitter_.ring(mesh_dim, {from.dk, from.dv}, {to.dk, to.dv});
    } else if (backward()) {
      inputs.insert(inputs.end(), {from.dk, from.dv});
      outputs.insert(outputs.end(), {to.dk, to.dv});
    }
    emitter_.ring(mesh_dim, std::move(inputs), std::move(outputs));
    if (from.segments >= 0) emitter_.ring(mesh_dim, {from.segments}, {to.segments});
  }
  void bring_home(int mesh_dim, const Keys& last, const Keys& travelling) {
    const bool cast = wide() != dtype();
    const BufferId dk = cast ? travelling.dk : own_.dk, dv = cast ? travelling.dv : own_.dv;
    emitter_.ring(mesh_dim, {last.dk, last.dv}, {dk, dv});
    if (!cast) return;
    emitter_.copy(dk, own_.dk);
    emitter_.copy(dv, own_.dv);
  }

  program::Emitter& emitter_;
  const Attributes& attributes_;
  int first_;
  Keys own_;
  BufferId query_segments_ = -1, bias_ = -1;
  BufferId result_ = -1;  ///< out or dq
};

}  // namespace

double attention_product_flops(const Shape& q, const Shape& k, const Attributes& attributes) {
  const bool causal = has(attributes, "causal");
  const auto window = static_cast<double>(attributes.integer("window"));
  double keys = static_cast<double>(k[1].size) * (causal ? 0.5 : 1.0);
  if (window > 0) keys = std::min(keys, causal ? window : 2 * window - 1);
  return 2.0 * static_cast<double>(q.size()) * keys;
}

Window attention_window(const Attributes& attributes, std::int64_t n) {
  const std::int64_t reach = std::min(attributes.integer("window") - 1, n);
  return Window::halo(n, reach, has(attributes, "causal") ? 0 : reach, Window::Outside::clip);
}

void lower_attention(program::Emitter& emitter, const Attributes& attributes) {
  Lowering(emitter, attributes, 0).run();
}

void lower_attention_gradient(program::Emitter& emitter, const Attributes& attributes) {
  Lowering(emitter, attributes, 1).run();
}

}  // namespace tessera::ops

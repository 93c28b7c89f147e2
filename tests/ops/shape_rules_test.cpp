// SPDX-License-Identifier: BSD-3-Clause
// Shape rules and their messages, without running anything.
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/ops/cumsum.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/positions.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"
#include "tessera/ops/top_k.hpp"

using namespace tessera;

namespace {

struct Case {
  VariableSet variables;
  Graph graph{"rules", variables};
  int count = 0;
  Tensor tensor(Shape shape, DType dtype = DType::f32) {
    return graph.input("x" + std::to_string(count++), {std::move(shape), dtype});
  }
};

/// The message of the UserError that `f` throws.
template <class F>
std::string message(F f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, std::initializer_list<const char*> pieces) {
  for (const char* piece : pieces)
    if (text.find(piece) == std::string::npos) return false;
  return true;
}

}  // namespace

TEST_CASE("results have the first operand's dims, then the others'") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}, {"b", 3}}), y = c.tensor({{"c", 4}, {"b", 3}});
  CHECK(ops::add(x, y).shape() == Shape{{"a", 2}, {"b", 3}, {"c", 4}});
  CHECK(ops::einsum({x, y}, {{"c", 4}, {"a", 2}}).shape() == Shape{{"c", 4}, {"a", 2}});
  CHECK(ops::rename(x, "a", "d").shape() == Shape{{"d", 2}, {"b", 3}});
  CHECK(ops::slice(x, "b", 1, 2).shape() == Shape{{"a", 2}, {"b", 2}});
  CHECK(ops::select(x, "a", "position").shape() == Shape{{"b", 3}});
  CHECK(ops::reshape(x, {{"c", 6}}).shape() == Shape{{"c", 6}});
}

TEST_CASE("a bias does not widen a 16-bit activation") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}, {"b", 3}}, DType::bf16), bias = c.tensor({{"b", 3}});
  CHECK(ops::add(x, bias).dtype() == DType::bf16);
  CHECK(ops::add(bias, x).dtype() == DType::bf16);
  CHECK(ops::add(x, c.tensor({{"a", 2}, {"b", 3}})).dtype() == DType::f32);
  CHECK(ops::reduce_sum(x, {{"b", 3}}).dtype() == DType::f32);
  CHECK(ops::reduce_max(x, {{"b", 3}}).dtype() == DType::bf16);
}

TEST_CASE("errors name dims and sizes") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}, {"b", 3}}), ids = c.tensor({{"n", 5}}, DType::i32);
  CHECK(has(message([&] { ops::add(x, c.tensor({{"b", 4}})); }), {"'b'", "3", "4"}));
  CHECK(has(message([&] {
              ops::einsum({x, c.tensor({{"b", 4}})}, {{"a", 2}});
            }),
            {"'b'", "3", "4"}));
  CHECK(has(message([&] { ops::einsum({x, ids}, {{"a", 2}}); }), {"i32", "cast"}));
  CHECK(has(message([&] {
              ops::einsum({x, c.tensor({{"b", 3}}, DType::f64)}, {{"a", 2}});
            }),
            {"f32", "f64", "cast"}));
  CHECK(has(message([&] { ops::reduce_sum(x, {{"c", 3}}); }), {"'c'", "[a:2, b:3]"}));
  CHECK(has(message([&] { ops::reduce_sum(x, {{"b", 4}}); }), {"'b'", "another size"}));
  CHECK(has(message([&] { ops::reduce_max(ids, Shape{}); }), {"i32", "cast"}));
  CHECK(has(message([&] { c.graph.feed("step", DType::bf16); }), {"'step'", "bf16", "f32 or f64"}));
  CHECK(has(message([&] { ops::broadcast(x, {{"b", 3}}); }), {"'a'", "missing"}));
  CHECK(has(message([&] { ops::slice(x, "b", 2, 2); }), {"'b'", "[2, 4)", "[0, 3)"}));
  CHECK(has(message([&] { ops::slice(x, "b", 0, 2, 3); }), {"'b'", "[0, 4)", "[0, 3)"}));
  CHECK(has(message([&] { ops::slice(x, "b", 0, 2, 0); }), {"'b'", "step 0"}));
  CHECK(has(message([&] {
              ops::concat({x, c.tensor({{"a", 3}, {"b", 3}})}, "b");
            }),
            {"'b'", "[a:2, b:3]", "[a:3, b:3]"}));
  CHECK(has(message([&] { ops::split(x, "b", {2, 2}); }), {"'b'", "4", "3"}));
  CHECK(has(message([&] { ops::stack({x}, "c", 3); }), {"3", "[a:2, b:3]"}));
  CHECK(has(message([&] { ops::stack({x}, "a"); }), {"'a'", "two dims"}));
  CHECK(has(message([&] { ops::pad(x, "b", 2, 4); }), {"'b'", "[2, 5)", "[0, 4)"}));
  CHECK(has(message([&] { ops::rename(x, "c", "d"); }), {"'c'", "[a:2, b:3]"}));
  CHECK(has(message([&] { ops::rename(x, "a", "b"); }), {"'b'", "two dims"}));
  CHECK(has(message([&] { ops::reshape(x, {{"c", 5}}); }), {"6 elements", "5"}));
  CHECK(has(message([&] { ops::select(x, "c", "p"); }), {"'c'"}));
  CHECK(has(message([&] { ops::rotary(x, "a"); }), {"'b'", "odd", "3"}));
  CHECK(has(message([&] { ops::rotary(x, "b"); }), {"'b'", "last"}));
  CHECK(has(message([&] { ops::dropout(x, {.rate = 1.5}); }), {"1.5"}));
}

TEST_CASE("errors of embedding, norm, loss and attention say what is legal") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}, {"b", 3}}), ids = c.tensor({{"n", 5}}, DType::i32);
  CHECK(has(message([&] { ops::embedding(x, x); }), {"ids", "i32"}));
  CHECK(has(message([&] {
              ops::embedding(x, c.tensor({{"b", 3}}, DType::i32));
            }),
            {"'b'", "rename"}));
  CHECK(has(message([&] {
              ops::layer_norm(x, "b", c.tensor({{"b", 4}}), {}, 1e-5);
            }),
            {"[b:4]", "[b:3]"}));
  CHECK(has(message([&] { ops::rms_norm(x, "c", {}, 1e-5); }), {"'c'"}));
  CHECK(has(message([&] { ops::softmax_cross_entropy(x, ids, {}); }), {"[n:5]", "[a:2]"}));
  CHECK(has(message([&] { ops::softmax_cross_entropy(x, c.tensor({{"a", 2}}), {}); }), {"i32"}));
  const Tensor q = c.tensor({{"batch", 2}, {"length", 4}, {"heads", 3}, {"d", 8}});
  const Tensor k = c.tensor({{"batch", 2}, {"memory", 4}, {"heads", 3}, {"d", 8}});
  CHECK(ops::attention(q, k, k, {}).shape() == q.shape());
  CHECK(ops::attention(q, q, q, {}).shape() == q.shape());
  const Tensor longer = c.tensor({{"batch", 2}, {"length", 5}, {"heads", 3}, {"d", 8}});
  CHECK(has(message([&] { ops::attention(q, longer, longer, {}); }), {"'length'", "memory"}));
  const Tensor segments = c.tensor({{"batch", 2}, {"length", 4}}, DType::i32);
  CHECK(has(message([&] { ops::attention(q, k, k, {.query_segments = segments}); }),
            {"keys' segments", "[batch:2, memory:4] in i32"}));
  CHECK(
      has(message([&] { ops::attention(q, q, q, {.key_segments = segments}); }), {"queries none"}));
  CHECK(has(message([&] {
              ops::attention(q, q, q, {.relative_bias = c.tensor({{"buckets", 8}})});
            }),
            {"[buckets:8]", "[heads:3]"}));
  const Tensor bias = c.tensor({{"heads", 3}, {"buckets", 8}});
  CHECK(has(message([&] { ops::attention(q, q, q, {.relative_bias = bias, .max_distance = 4}); }),
            {"max_distance = 4", "8 buckets"}));
  const Tensor one = c.tensor({{"heads", 3}, {"buckets", 1}});
  CHECK(ops::attention(q, q, q, {.relative_bias = one}).shape() == q.shape());
  CHECK(has(message([&] { ops::attention(q, q, q, {.causal = false, .relative_bias = one}); }),
            {"has 1 buckets", "2 to 256"}));
  CHECK(has(message([&] { ops::attention(q, k, c.tensor(k.shape(), DType::bf16), {}); }),
            {"keys f32", "values bf16", "cast"}));
  CHECK(has(message([&] { ops::attention(c.tensor(q.shape(), DType::bf16), k, k, {}); }),
            {"queries are bf16", "keys f32", "cast"}));
  CHECK(has(message([&] { ops::attention(q, q, q, {.window = -1}); }), {"window = -1"}));
  CHECK(has(message([&] { ops::attention(x, k, k, {}); }), {"[batch, length, heads, d]"}));
  CHECK(has(
      message([&] {
        ops::attention(q, k, c.tensor({{"batch", 2}, {"memory", 5}, {"heads", 3}, {"d", 8}}), {});
      }),
      {"values", "memory:5"}));
}

TEST_CASE("errors of lookups and orders say what is legal") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}, {"b", 3}}), ids = c.tensor({{"n", 5}}, DType::i32);
  CHECK(ops::gather(x, ids, "b").shape() == Shape{{"n", 5}, {"a", 2}});
  CHECK(has(message([&] { ops::gather(x, x, "b"); }), {"f32", "i32"}));
  CHECK(has(message([&] { ops::gather(x, ids, "c"); }), {"'c'", "[a:2, b:3]"}));
  CHECK(has(message([&] {
              ops::gather(x, c.tensor({{"b", 3}}, DType::i32), "b");
            }),
            {"'b'", "rename"}));
  CHECK(has(message([&] {
              ops::gather(x, c.tensor({{"a", 4}}, DType::i32), "b");
            }),
            {"'a'", "4", "2"}));
  CHECK(has(message([&] {
              ops::scatter_add(x, ids, "b", {{"b", 3}});
            }),
            {"[a:2, b:3]", "[n:5]", "[n:5]"}));
  CHECK(has(message([&] { ops::scatter_add(ids, ids, "b", Shape{{"b", 3}}); }), {"i32", "cast"}));
  CHECK(has(message([&] { ops::one_hot(ids, {"n", 3}, DType::f32); }), {"'n'", "rename"}));
  CHECK(has(message([&] { ops::top_k(x, "b", {"k", 4}); }), {"k = 4", "'b'", "3"}));
  CHECK(has(message([&] { ops::top_k(x, "b", {"a", 1}); }), {"'a'", "another name"}));
  CHECK(has(message([&] { ops::argmax(ids, "n"); }), {"i32", "cast"}));
  CHECK(has(message([&] { ops::cumsum(x, "c"); }), {"'c'"}));
  CHECK(has(message([&] { ops::softmax(x, "c"); }), {"'c'"}));
}

TEST_CASE("the scoped name of an operation begins the message") {
  Case c;
  const Graph::Scope scope(c.graph, "layer_0");
  const Tensor x = c.tensor({{"a", 2}});
  CHECK(has(message([&] { ops::slice(x, "a", 1, 2); }), {"layer_0/slice"}));
}

TEST_CASE("what only copies the gradient adds no operation") {
  Case c;
  const Tensor x = c.tensor({{"a", 2}}), y = c.tensor({{"a", 2}});
  const Tensor loss = ops::reduce_sum(ops::add(x, y), Shape{});
  const std::size_t before = c.graph.nodes().size();
  const auto slopes = gradients(loss, {x, y});
  CHECK(slopes[0] == slopes[1]);
  CHECK(c.graph.nodes().size() == before + 2);  // the one, and its repetition along a
}

TEST_CASE("gradients of 16-bit copies of weights are computed in full precision") {
  Case c;
  const Tensor x = c.tensor({{"n", 2}, {"a", 3}}, DType::bf16);
  const Tensor w = c.graph.variable(
      {"w", {{{"a", 3}, {"b", 4}}, DType::f32}, Variable::Kind::weight, {}, true, true, ""});
  const Tensor y = ops::einsum({x, ops::cast(w, DType::bf16)}, {{"n", 2}, {"b", 4}});
  CHECK(y.dtype() == DType::bf16);
  const auto slopes = gradients(ops::reduce_sum(y, Shape{}), {w, x});
  CHECK(slopes[0].dtype() == DType::f32);
  CHECK(slopes[1].dtype() == DType::bf16);
}

TEST_CASE("a full-precision product of 16-bit tensors has gradients of any order") {
  Case c;
  const Tensor x = c.tensor({{"n", 2}, {"a", 3}}, DType::bf16);
  const Tensor y = c.tensor({{"a", 3}, {"b", 4}}, DType::bf16);
  const Tensor z = ops::einsum({x, y}, {{"n", 2}, {"b", 4}}, DType::f32);
  CHECK(z.dtype() == DType::f32);
  const auto slopes = gradients(ops::reduce_sum_squares(z, Shape{}), {x, y});
  CHECK(slopes[0].dtype() == DType::bf16);
  const auto second = gradients(ops::reduce_sum_squares(slopes[0], Shape{}), {x, y});
  CHECK(second[0].dtype() == DType::bf16);
  CHECK(second[1].dtype() == DType::bf16);
}

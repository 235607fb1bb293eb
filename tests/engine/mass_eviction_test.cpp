// What an eviction between two queries is made of: who leaves, where tokens are, and how much of it depends on the model's size.
#include "engine/decode/eviction/mass_eviction.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/core/policy/policy_text.h"
#include "engine/core/support/random.h"
#include "engine/decode/forced_pass.h"
#include "engine/model/ops.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using engine::HeadTokens;
using engine::SlotCache;
using engine::SlotOrder;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Sorted by worth, of equals the older first: the places after the n best that are not protected.
std::vector<std::int32_t> sorted_rest(const std::vector<float>& worth, std::int64_t n) {
  std::vector<std::int32_t> order(worth.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return worth[a] > worth[b]; });
  order.erase(order.begin(), order.begin() + std::clamp<std::int64_t>(n, 0, static_cast<std::int64_t>(order.size())));
  std::erase_if(order, [&](int i) { return worth[i] == kInfinity; });
  std::ranges::sort(order);
  return order;
}

TEST_CASE("those that leave are the rest after the best, of equals the newer", "[engine][eviction]") {
  Random random(5);
  for (int round = 0; round < 400; ++round) {
    std::vector<float> worth;
    const auto size = static_cast<int>(1 + random.below(40));
    for (int i = 0; i < size; ++i) {
      const auto kind = random.below(10);  // few values, so that many are equal
      worth.push_back(kind == 0 ? kInfinity : kind == 1 ? -kInfinity : static_cast<float>(random.below(6)));
    }
    const std::vector<std::int32_t> positions(worth.size());
    for (std::int64_t n = 0; n <= size + 1; ++n) {
      std::vector<float> copy = worth;
      CAPTURE(worth, n);
      REQUIRE(HeadTokens{positions, copy}.all_but_best(n) == sorted_rest(worth, n));
    }
  }
}

TEST_CASE("sinks and the newest are protected, and what is no number is worth least", "[engine][eviction]") {
  const std::vector<std::int32_t> positions = {0, 1, 5, 8, 9};
  std::vector<float> worth = {3, NAN, NAN, 2, 1};
  HeadTokens tokens{positions, worth};
  tokens.protect(1, 9);
  CHECK(worth == std::vector<float>{kInfinity, -kInfinity, -kInfinity, 2, kInfinity});
  CHECK(tokens.n_free() == 3);
  CHECK(tokens.free_worth() == std::vector<float>{-kInfinity, -kInfinity, 2});
}

constexpr int kLayers = 2, kHeads = 3, kDim = 8;

/// A cache of kTokens tokens a head, with keys by layer, head and position.
struct Filled {
  SlotCache cache{kLayers, kHeads, kDim, 64, at::kFloat, c10::kCPU};
  std::vector<at::Tensor> k;  // [layers] of [tokens, heads, dim]
  explicit Filled(int n) {
    const at::Tensor position = at::arange(n, at::kInt), slot = position.expand({kHeads, n}).contiguous();
    for (const int part : {5, 20, n}) cache.fill_slots(part);  // the pages of heads alternate
    for (int layer = 0; layer < kLayers; ++layer) {
      k.push_back(at::arange(n * kHeads * kDim, at::kFloat).view({n, kHeads, kDim}) + 10000 * layer);
      engine::ops::append_many(cache.view(layer), k[layer], -k[layer], slot, position);
      cache.slot_priority(layer).narrow(1, 0, n).copy_(position + 1);
    }
  }
};

/// What the lists say is what the cache holds, and the rows are the tokens' keys.
void check_order(const SlotOrder::Head& head, const Filled& filled, int layer, int kv_head) {
  CHECK(head.positions == filled.cache.positions(layer, kv_head));
  REQUIRE(head.slots.size() == head.positions.size());
  const at::Tensor by_slot = filled.cache.slot_position(layer)[kv_head];
  for (std::size_t i = 0; i < head.slots.size(); ++i) REQUIRE(by_slot[head.slots[i]].item<int>() == head.positions[i]);
  const auto n = static_cast<std::int64_t>(head.slots.size());
  at::Tensor slot = at::zeros({1, kHeads, n}, at::kLong);
  slot[0][kv_head] = at::tensor(at::ArrayRef<std::int32_t>(head.slots)).to(at::kLong);
  const SlotCache::Rows rows = filled.cache.rows_in(at::tensor({layer}, at::kLong), slot, /*with_values=*/true);
  for (std::int64_t i = 0; i < n; ++i) {
    const at::Tensor expected = filled.k[layer][head.positions[static_cast<std::size_t>(i)]][kv_head];
    REQUIRE(at::equal(rows.k[kv_head][i], expected));
    REQUIRE(at::equal(rows.v[kv_head][i], -expected));
  }
}

TEST_CASE("the order of slots follows removals and steps without a look at the cache", "[engine][eviction]") {
  constexpr int kTokens = 40;
  Filled filled(kTokens);
  SlotOrder order;
  order.read(filled.cache, kTokens);
  Random random(3);
  for (int round = 0; round < 6; ++round) {
    std::vector<std::vector<std::int32_t>> leave(kLayers * kHeads), slots(leave.size());
    const std::vector<SlotOrder::Head> before = order.read(filled.cache, kTokens);
    for (std::size_t head = 0; head < leave.size(); ++head) {
      for (std::int32_t place = 0; place < static_cast<std::int32_t>(before[head].slots.size()); ++place)
        if (random.below(8) == 0) leave[head].push_back(place), slots[head].push_back(before[head].slots[place]);
    }
    order.remove(leave, filled.cache.remove(slots));
    const std::vector<SlotOrder::Head>& known = order.read(filled.cache, kTokens);
    for (int head = 0; head < kLayers * kHeads; ++head)
      check_order(known[static_cast<std::size_t>(head)], filled, head / kHeads, head % kHeads);
  }
}

TEST_CASE("a step adds its token to the order in its slot, and takes out whom it evicted", "[engine][eviction]") {
  Filled filled(4);
  SlotOrder order;
  order.read(filled.cache, 4);
  std::vector<kernels::RetainDecision> decisions(kLayers * kHeads);
  for (kernels::RetainDecision& one : decisions) one.evicted = -1, one.slot = 4;
  decisions[1].evicted = 2, decisions[1].slot = 2;
  order.note_step(4, decisions.data());
  const std::vector<SlotOrder::Head>& heads = order.read(filled.cache, 5);
  CHECK(heads[0].positions == std::vector<std::int32_t>{0, 1, 2, 3, 4});
  CHECK(heads[0].slots == std::vector<std::int32_t>{0, 1, 2, 3, 4});
  CHECK(heads[1].positions == std::vector<std::int32_t>{0, 1, 3, 4});
  CHECK(heads[1].slots == std::vector<std::int32_t>{0, 1, 3, 2});
  order.note_step(7, decisions.data());                         // two steps are missing
  CHECK(order.read(filled.cache, 8)[0].positions.size() == 4);  // read again
}

std::map<std::string, int> g_operations;
std::unique_ptr<at::ObserverContext> count_operation(const at::RecordFunction& function) {
  ++g_operations[function.name()];
  return nullptr;
}

/// How often each of LibTorch's operations that a GPU launches was called for a text.
std::map<std::string, int> operations(int n_layers, const std::string& policy) {
  ModelConfig config = test::small_config();
  config.n_layers = n_layers;
  config.layers.resize(static_cast<std::size_t>(n_layers), config.layers[0]);
  const auto model = engine::LoadedModel::random(config, 1);
  const ScoreRequest request{
      .text = "", .ids = test::some_ids(60), .policy = PolicySpec::parse(policy), .changes = {}, .chunk = 1};
  g_operations.clear();
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback(count_operation).scopes({at::RecordScope::FUNCTION}));
  engine::record_run(model, engine::forced_request(model, request));
  at::removeCallback(handle);
  std::map<std::string, int> launched;
  for (const char* name :
       {"aten::bmm", "aten::_softmax", "aten::gather", "aten::copy_", "aten::mean", "aten::sum", "aten::masked_fill_"})
    launched[name] = g_operations[name];
  return launched;
}

TEST_CASE("an eviction after every token takes as many operations in six layers as in two", "[engine][eviction]") {
  const std::string policy = GENERATE("snapkv:budget=24,window=8", "expected-attention:budget=24,sinks=4,future=8");
  CAPTURE(policy);
  const std::map<std::string, int> of_two = operations(2, policy), of_six = operations(6, policy);
  CHECK(of_two == of_six);
  CHECK(of_two.at("aten::bmm") >= 36);  // at least one for each of the 36 tokens after the budget
}

}  // namespace
}  // namespace kvscope

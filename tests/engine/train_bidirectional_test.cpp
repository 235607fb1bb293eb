// SP-KV's locally bidirectional predictor (App. C.4) in training. Its formula: train_losses_test.cpp; what a recipe must not ask of
// it: train_gate_test.cpp.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/gate_module.h"
#include "tests/engine/train_support.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

at::Tensor leaf(const at::Tensor& values) { return values.detach().clone().set_requires_grad(true); }

}  // namespace

TEST_CASE("the gradient of a convolved predictor is that of finite differences, for every tensor and what enters") {
  // In double: a step of 1e-6 leaves 1e-10 of rounding and 1e-12 of curvature.
  constexpr int T = 7, F = 6, M = 3, kKernel = 5;
  at::manual_seed(13);
  ModelConfig model = test::student_config();
  model.hidden_size = F;
  const GateModule gate(GateKind::sp_kv, M, model, at::kCPU, kKernel);
  GateModule::Layer layer;
  for (const auto& spec : gate.parameters().specs())
    layer[spec.name] = leaf(at::randn(at::IntArrayRef(spec.shape).slice(1), at::kDouble));
  layer["x"] = leaf(at::randn({2, T, F}, at::kDouble));
  const at::Tensor k = at::zeros({2, T, 2, 8}, at::kDouble), seen = at::randn({2, 2, T}, at::kDouble);
  const auto loss = [&](const GateModule::Layer& with) {
    const at::Tensor x = with.at("x");
    return (gate.output(with, {.input = x, .k = k, .v = k}, x).sigmoid() * seen).sum();
  };
  loss(layer).backward();
  for (const auto& [name, values] : layer) {
    const at::Tensor flat = values.detach().flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      CAPTURE(name, i);
      const auto at_step = [&](double step) {
        GateModule::Layer moved = layer;
        at::Tensor other = flat.clone();
        other[i] += step;
        moved[name] = other.view(values.sizes());
        return loss(moved).item<double>();
      };
      const double slope = (at_step(1e-6) - at_step(-1e-6)) / 2e-6;
      CHECK(values.grad().flatten()[i].item<double>() == Approx(slope).epsilon(1e-6).margin(1e-8));
    }
  }
}

TEST_CASE("a convolution begins as the identity, and sees no other sequence of the batch") {
  constexpr int T = 9, M = 4, kKernel = 5;
  const ModelConfig model = test::student_config();
  GateModule plain(GateKind::sp_kv, M, model, at::kCPU), around(GateKind::sp_kv, M, model, at::kCPU, kKernel);
  plain.initialise(3, 5);
  around.initialise(3, 5);
  at::manual_seed(14);
  const at::Tensor x = at::randn({3, T, model.hidden_size}), k = at::zeros({3, T, 2, 8});
  const auto output = [&](const GateModule& gate, const at::Tensor& in) {
    return gate.output(gate.layers()[1], {.input = in, .k = k.narrow(0, 0, in.size(0)), .v = k}, in).detach();
  };
  CHECK(at::equal(output(around, x), output(plain, x)));
  CHECK(around.config().delay == kKernel / 2);

  at::manual_seed(15);
  around.parameters().master("conv").copy_(at::randn({2, M, kKernel}));
  around.parameters().publish();
  const at::Tensor before = output(around, x);
  CHECK_FALSE(at::allclose(before, output(plain, x)));
  at::Tensor other = x.clone();
  other[1].normal_();
  const at::Tensor after = output(around, other);
  CHECK(at::equal(after[0], before[0]));
  CHECK(at::equal(after[2], before[2]));
  other = x.clone();
  other[1][4].normal_();  // it reaches two tokens to both sides
  const at::Tensor changed = (output(around, other) != before).any(1).to(at::kInt);  // [3, T]
  CHECK(at::equal(changed[1], at::tensor({0, 0, 1, 1, 1, 1, 1, 0, 0}, at::kInt)));
  CHECK(changed.sum().item<int>() == 5);
}

TEST_CASE(
    "a convolved predictor is trained soft, drawn and before hard gates, and stays as it is while they are hard") {
  const test::TempFolder scratch;
  const std::string how = GENERATE("soft", "drawn", "hard", "half");
  CAPTURE(how);
  nlohmann::json recipe = {{"name", "test"},
                           {"seed", 3},
                           {"data", {{"kind", "text"}, {"length", 64}, {"facts_share", 0}}},
                           {"gate",
                            {{"method", "sp-kv"},
                             {"kernel", 5},
                             {"hidden", 4},
                             {"window", 16},
                             {"batch", 1},
                             {"log_every", 1},
                             {"warm_up", 0},
                             {"adapter", {{"rank", 2}, {"learning_rate", 1e-2}}},
                             {"stages", {{{"steps", 2}}}}}}};
  if (how == "drawn") recipe["gate"].update({{"sampled", true}, {"least_probability", 0.5}});
  if (how == "hard") recipe["gate"]["hard_share"] = 1.0;
  if (how == "half") recipe["gate"]["hard_share"] = 0.5;
  JobContext context;
  train_job({{"recipe", recipe},
             {"base", test::kModel.string()},
             {"data", test::kText.string()},
             {"output", (scratch / "out").string()},
             {"device", "cpu"},
             {"threads", 1}},
            context);
  const GateFile gate = load_gate(scratch / "out/sp-kv-k5-joint", ModelConfig::load(test::kModel));
  CHECK(gate.config.kernel == 5);
  CHECK(gate.config.delay == 2);
  const std::vector<float>& conv = gate.tensors.at("conv").values;
  for (std::size_t i = 0; i < conv.size(); ++i) {
    if (how == "hard") REQUIRE(conv[i] == (i % 5 == 2 ? 1 : 0));
  }
  if (how != "hard") CHECK(std::ranges::count(conv, 0.0f) < std::ssize(conv) / 8);  // taps to both sides have learnt
}

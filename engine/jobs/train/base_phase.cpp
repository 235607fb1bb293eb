#include <ATen/ATen.h>

#include <cstdio>
#include <numeric>

#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {
namespace {

/// Losses of a step, still on the device: reading them would stall the host.
struct BaseLosses {
  at::Tensor all;         // weighted mean
  at::Tensor nll, roles;  // [B * T]
  double mean_of(TokenRole role) const {
    const at::Tensor chosen = (roles == static_cast<std::int64_t>(role)).to(at::kFloat);
    return ((nll * chosen).sum() / chosen.sum().clamp_min(1)).item<double>();
  }
};

/// Adds the gradients of one batch, micro-batch by micro-batch.
BaseLosses accumulate(const DecoderModule& model, const Batch& batch, const BaseOptions& options, at::Device device) {
  const at::Tensor ids = ids_tensor(batch, device), roles = roles_tensor(batch, device);
  const auto n_positions = ids.size(1) - 1;
  const LossWeights& w = options.weights;
  const at::Tensor by_role = at::tensor({w.text, w.statement, w.answer}).to(device);
  const at::Tensor target_roles = roles.narrow(1, 1, n_positions).reshape({-1});
  const at::Tensor weight = by_role.index_select(0, target_roles);
  const at::Tensor share = weight / weight.sum();

  BaseLosses losses{.all = at::zeros({}, share.options()), .roles = target_roles};
  std::vector<at::Tensor> nll;
  const int at_once = std::gcd(batch.size, options.micro_batch);  // a device's share may be less than a micro-batch
  for (std::int64_t begin = 0; begin < batch.size; begin += at_once) {
    const at::Tensor rows = ids.narrow(0, begin, at_once);
    const at::Tensor hidden = model.hidden(rows.narrow(1, 0, n_positions));
    const auto loss =
        weighted_cross_entropy(hidden.flatten(0, 1), model.output(), rows.narrow(1, 1, n_positions).reshape({-1}),
                               share.narrow(0, begin * n_positions, at_once * n_positions));
    loss.loss.backward();
    losses.all += loss.loss.detach();
    nll.push_back(loss.nll);
  }
  losses.nll = at::cat(nll);
  return losses;
}

}  // namespace

nlohmann::json run_base_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const BaseOptions& options = *recipe.base;
  const auto sequences = training.sequences(recipe.seed);
  DecoderModule model(recipe.model, recipe.length(), training.device,
                      training.device.is_cuda() ? at::kBFloat16 : at::kFloat, /*trained=*/true);
  model.initialise(recipe.seed);
  AdamW optimizer(model.parameters(), options.optimizer);
  BaseLosses losses;
  nlohmann::json facts = run_steps(
      training, options, *sequences, optimizer,
      {.name = "base",
       .loss_columns = {"loss_all", "loss_answers", "loss_text"},
       .add_gradients = [&](const Batch& batch,
                            std::int64_t) { losses = accumulate(model, batch, options, training.device); },
       .report =
           [&](std::int64_t) {
             return std::vector{losses.all.item<double>(), losses.mean_of(TokenRole::answer),
                                losses.mean_of(TokenRole::text)};
           },
       .describe =
           [](const std::vector<double>& values) {
             char text[96];
             std::snprintf(text, sizeof text, "loss %.4f  answers %.4f  text %.3f", values[0], values[1], values[2]);
             return std::string(text);
           }});
  if (facts["status"] == "cancelled" || !training.leads()) return facts;
  write_model(training.output, model, training.corpus.tokenizer_file());
  facts["tokens"] = static_cast<double>(options.batch) * recipe.length() * facts["steps"].get<double>();
  facts["parameters"] = model.parameters().n_elements();
  facts["heldout_teacher_forced"] = dense_accuracy(model, *training.heldout(), options.heldout_sequences);
  return facts;
}

}  // namespace kvscope::engine

#include "engine/jobs/train/heldout_probe.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kMostProbeText = 16u << 20;

/// [n_kv_heads, T]: the scores that are there once the whole text is.
void put_probe_scores(const at::Tensor& scores, int layer, const at::Tensor& of_layer, std::int64_t n_unknown) {
  const std::int64_t n = std::max<std::int64_t>(0, of_layer.size(1) - n_unknown);
  scores[layer].narrow(1, 0, n).copy_(of_layer.narrow(1, 0, n));
}

at::Tensor no_probe_scores(const DecoderModule& model, const at::Tensor& ids) {
  return at::full({model.config().n_layers, model.config().n_kv_heads, ids.size(1)},
                  std::numeric_limits<float>::quiet_NaN(), at::kFloat);
}

std::vector<std::int32_t> probe_ids(const Training& training) {
  const ProbeOptions& probe = *training.recipe.probe;
  std::vector<std::int32_t> ids;
  if (!probe.file.empty() || !probe.text.empty()) {
    const std::string text = probe.file.empty() ? probe.text : read_text_file(probe.file, kMostProbeText);
    ids = training.corpus.tokenizer().encode(text, false);
  } else {
    ids = training.heldout()->make(0).ids;
  }
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(probe.tokens)));
  const int least = training.recipe.probe_delay() + 1;
  if (std::ssize(ids) < least)
    throw Error({.where = "probe",
                 .found = "a text of " + std::to_string(ids.size()) + " tokens",
                 .expected = std::to_string(least) + " tokens or more: the gate scores a token " +
                             std::to_string(least - 1) + " tokens later"});
  return ids;
}

/// Bytes that are part of a character become U+FFFD: JSON has no others.
nlohmann::json probe_text_json(const Training& training, const std::vector<std::int32_t>& ids) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const std::int32_t id : ids) pieces.push_back(std::string(training.corpus.tokenizer().piece(id)));
  const std::string valid = pieces.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {{"tokens", ids}, {"pieces", nlohmann::json::parse(valid)}};
}

}  // namespace

at::Tensor probe_scores(const DecoderModule& model, const GateModule& gate, const at::Tensor& ids) {
  const c10::NoGradGuard no_grad;
  const GateConfig& config = gate.config();
  const std::vector<GateModule::Layer> networks = gate.layers();
  const bool of_next = config.kind == GateKind::dms_separate;  // token t + 1 marks token t
  at::Tensor scores = no_probe_scores(model, ids), x = model.embed(ids);
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    const auto heads = gate.reads_unrotated() ? model.project_unrotated(layer, x) : model.project(layer, x);
    if (!model.config().is_local(layer)) {
      at::Tensor score = gate.output(networks[static_cast<std::size_t>(layer)], heads, x)[0];
      score = score * config.scale + config.offset;
      if (config.negated) score = -score;
      if (config.sigmoid) score = score.sigmoid();
      if (of_next) score = score.roll(-1, 1);
      put_probe_scores(scores, layer, score, config.delay);
    }
    x = model.finish(layer, x, model.attend(layer, heads));
  }
  return scores;
}

at::Tensor probe_scores(const DecoderModule& model, const ScorerModule& scorer, int delay, const at::Tensor& ids) {
  const c10::NoGradGuard no_grad;
  at::Tensor scores = no_probe_scores(model, ids), x = model.embed(ids);
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    const auto heads = model.project(layer, x);
    if (!model.config().is_local(layer))
      put_probe_scores(scores, layer, scorer.scores(layer, heads.k, heads.v).select(1, 0), delay);
    x = model.finish(layer, x, model.attend(layer, heads));
  }
  return scores;
}

AsSaved::AsSaved(std::vector<FlatParameters*> parameters) {
  const c10::NoGradGuard no_grad;
  for (FlatParameters* each : parameters) {
    if ((*each)[each->specs().front().name].scalar_type() == at::kBFloat16)
      continue;  // what computes is rounded already
    kept_.emplace_back(each, each->masters().clone());
    each->masters().copy_(each->masters().to(at::kBFloat16));
    each->publish();
  }
}

AsSaved::~AsSaved() {
  const c10::NoGradGuard no_grad;
  for (const auto& [parameters, values] : kept_) {
    parameters->masters().copy_(values);
    parameters->publish();
  }
}

float keeps_from(const GateConfig& config) {
  const auto threshold = static_cast<float>(config.threshold);
  return config.strict ? std::nextafter(threshold, std::numeric_limits<float>::infinity()) : threshold;
}

HeldoutProbe::HeldoutProbe(const Training& training, const PhaseSteps& steps) : training_(training), steps_(steps) {
  if (!training.recipe.probe || !steps.probe || !training.leads() || !training.context.curve) return;
  const std::vector<std::int32_t> ids = probe_ids(training);
  text_ = probe_text_json(training, ids);
  ids_ = at::tensor(ids, at::kLong).unsqueeze(0).to(training.device);
}

void HeldoutProbe::tell(std::int64_t step, bool at_end) const {
  if (!ids_.defined() || !(at_end || step % training_.recipe.probe->every == 0)) return;
  const at::Tensor scores = steps_.probe(ids_).to(at::kCPU, at::kFloat).contiguous();
  std::vector<std::uint8_t> bytes(scores.nbytes());
  std::memcpy(bytes.data(), scores.const_data_ptr(), bytes.size());
  nlohmann::json probe = text_;
  probe["step"] = step;
  probe["threshold"] = steps_.keeps_from ? nlohmann::json(*steps_.keeps_from) : nlohmann::json();
  probe["shape"] = scores.sizes().vec();
  probe["scores"] = nlohmann::json::binary(std::move(bytes));  // little-endian
  training_.context.curve({{"name", steps_.name}, {"probe", std::move(probe)}});
}

void tell_probe_threshold(const Training& training, const std::string& name, float threshold) {
  if (!training.recipe.probe || !training.context.curve) return;
  training.context.curve({{"name", name}, {"probe", {{"threshold", threshold}}}});
}

}  // namespace kvscope::engine

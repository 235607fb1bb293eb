#include "tests/engine/small_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/record/assemble.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/run.h"

namespace kvscope::test {

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 512;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 64;
  config.max_positions = 1024;
  config.tie_word_embeddings = true;
  config.set_family(*find_family("Qwen3ForCausalLM"));
  return config;
}

ModelConfig small_variant_config() {
  ModelConfig config = small_config();
  config.layers[0].attention.soft_cap = 1;
  for (LayerConfig& layer : config.layers) layer.attention.has_sink = true;
  return config;
}

engine::LoadedModel small_model(std::uint64_t seed, int scorer_window, const std::string& device) {
  return engine::LoadedModel::random(small_config(), seed, {device, "float32"}, scorer_window);
}

std::vector<std::int32_t> some_ids(int n, int vocab_size, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  std::uint64_t state = seed;
  for (int i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(vocab_size)));
  }
  return ids;
}

RunRequest request(std::vector<std::int32_t> ids, const std::string& policy, int max_tokens) {
  RunRequest out;
  out.prompt_ids = std::move(ids);
  out.policy = PolicySpec::parse(policy);
  out.max_tokens = max_tokens;
  out.oracle = false;
  out.stop_at_eos = false;
  return out;
}

Fed feed(const engine::LoadedModel& model, const std::vector<std::int32_t>& ids, int prompt_len,
         const std::string& policy, const engine::PrefillOptions& options) {
  const auto rest = static_cast<int>(ids.size()) - prompt_len;
  RunRequest wanted = request({ids.begin(), ids.begin() + prompt_len}, policy, rest);
  wanted.answer_ids = {ids.begin() + prompt_len, ids.end()};  // what a policy that goes by the future looks at
  engine::Generation run(model, wanted);
  Fed out;
  out.record.model = model.info();
  RunStarted started = engine::started_facts(run);
  started.head.scorer = {};  // the record's model says which
  begin_run(out.record, std::move(started));
  apply(out.record, run.prefill({}, options));
  for (int i = prompt_len; i < static_cast<int>(ids.size()); ++i) apply(out.record, run.step_forced(ids[i]));
  finish_run(out.record, RunStatus::complete);
  out.logits.assign(run.logits().begin(), run.logits().end());
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    for (int head = 0; head < model.config().n_kv_heads; ++head) out.kept.push_back(run.cache().positions(layer, head));
  }
  return out;
}

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return a.size() == b.size() ? difference / scale : INFINITY;
}

}  // namespace kvscope::test

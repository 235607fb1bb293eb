#include "tests/engine/policy_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "engine/core/policy/policy.h"
#include "tests/engine/gated_model.h"

namespace kvscope::test {
namespace {

const PolicyCase kCases[] = {
    {"full", "full"},
    {"streaming:sinks=4,window=32", "streaming:sinks=4,window=512"},
    {"streaming:sinks=0,window=32", "streaming:sinks=0,window=512"},
    {"kvpop:budget=48,sinks=4,window=16", "kvpop:budget=512,sinks=4,window=16"},
    {"kvpop:budget=40,sinks=2,window=16,decay=0.97,stride=8", "kvpop:budget=512,window=16"},
    {"kvpop:budget=48,sinks=4,window=16,capacity=pooled", "kvpop:budget=512,window=16,capacity=pooled"},
    {"kvpop:budget=30,sinks=2,window=16,decay=0.97,stride=8,capacity=pooled",
     "kvpop:budget=512,window=16,capacity=pooled"},
    {"kvpop:budget=48,sinks=4,window=16,capacity=pooled,interval=8",
     "kvpop:budget=512,window=16,capacity=pooled,interval=8"},
    {"top-k:budget=48,sinks=4,window=16", "top-k:budget=512,window=16"},
    {"threshold:threshold=0.02,sinks=4,window=16", "threshold:threshold=-1e6,window=16"},
    {"sp-kv:threshold=0.5,window=16", "sp-kv:threshold=0,window=16"},
    {"sp-kv:threshold=0.5,sinks=4,window=24", "sp-kv:threshold=0,window=16"},
    {"wg-kv:threshold=0.5,window=16", "wg-kv:threshold=0,window=16"},
    {"wg-kv:threshold=0.4,window=16,pool=12,drop=0.25,observe=8", "wg-kv:threshold=0,window=16,pool=4096"},
    {"wg-kv:threshold=0.5,window=16,read=32", "wg-kv:threshold=0,window=16,read=4096"},
    {"dms:threshold=0,window=15", "dms:threshold=-1e6,window=15"},
    {"kvzap:threshold=0,window=16", "kvzap:threshold=-100,window=16"},
    {"kvzap:threshold=0,sinks=4,window=16,prefill=dense", "kvzap:threshold=-100,window=16,prefill=dense"},
    {"tova:budget=40", "tova:budget=512"},
    {"tova:budget=40,sinks=4", "tova:budget=512,sinks=4"},
    {"tova:budget=40,sinks=4,protect=8,prefill=sparse", "tova:budget=512,sinks=4,prefill=sparse"},
    {"tova:budget=40,protect=8,prefill=sparse", "tova:budget=512,prefill=sparse"},
    {"h2o:budget=40,window=16", "h2o:budget=512,window=16"},
    {"h2o:budget=40,sinks=4,window=16,prefill=sparse", "h2o:budget=512,sinks=4,window=16,prefill=sparse"},
    {"h2o:budget=40,sinks=4,window=16", "h2o:budget=512,sinks=4,window=16"},
    {"h2o:budget=40,window=16,normalise=mean", "h2o:budget=512,window=16,normalise=mean"},
    {"h2o:budget=40,sinks=4,window=16,prefill=sparse,normalise=mean",
     "h2o:budget=512,window=16,prefill=sparse,normalise=mean"},
    {"h2o:budget=40,window=16,prefill=sparse", "h2o:budget=512,window=16,prefill=sparse"},
    {"snapkv:budget=40,window=8", "snapkv:budget=512,window=8"},
    {"snapkv:budget=40,sinks=4,window=8", "snapkv:budget=512,sinks=4,window=8"},
    {"snapkv:sinks=4,window=8,pool=20,drop=0.25", "snapkv:sinks=4,window=8,pool=4096"},
    {"snapkv:budget=40,window=8,pooling=max,group=max,kernel=3", "snapkv:budget=512,window=8"},
    {"snapkv:window=8,pool=20,drop=0.25", "snapkv:window=8,pool=4096"},
    {"expected-attention:budget=40,interval=16,future=32", "expected-attention:budget=512,interval=16"},
    {"expected-attention:budget=40,interval=16,future=32,protect=12", "expected-attention:budget=512,interval=16"},
    {"expected-attention:budget=40,interval=0,covariance=0,values=0", "expected-attention:budget=512"},
    {"kvpop:budget=48,sinks=4,window=16,allocation=pyramid,beta=4", "kvpop:budget=512,window=16,allocation=pyramid"},
    {"top-k:budget=40,sinks=2,window=16,allocation=ada", "top-k:budget=512,window=16,allocation=ada"},
    {"tova:budget=40,sinks=2,allocation=pyramid,beta=3", "tova:budget=512,allocation=pyramid"},
    {"h2o:budget=40,window=16,allocation=ada", "h2o:budget=512,window=16,allocation=ada"},
    {"h2o:budget=40,sinks=4,window=16,prefill=sparse,allocation=pyramid,beta=3",
     "h2o:budget=512,window=16,prefill=sparse,allocation=pyramid"},
    {"snapkv:budget=40,window=8,allocation=ada,safeguard=0.1", "snapkv:budget=512,window=8,allocation=ada"},
    {"expected-attention:budget=40,interval=16,future=32,allocation=ada",
     "expected-attention:budget=512,interval=16,allocation=ada"},
    {"duo:full=0.5,sinks=4,window=16", "duo:full=1,window=16"},
    {"hybrid:heads=a,window=16", "hybrid:heads=d,full=1,window=16"},
    {"hybrid:heads=b,window=16", "hybrid:heads=c,full=1,window=16"},
    {"hybrid:heads=c,full=0.5,on=threshold,threshold=0.02,window=16", "hybrid:heads=c,full=1,window=16"},
    {"hybrid:heads=d,full=0.5,sinks=4,window=16", "hybrid:heads=d,full=1,window=16"},
    {"quest:read=32,dense=1", "quest:read=4096,dense=0"},
    {"random:budget=40,sinks=4,window=16,seed=3", "random:budget=512,window=16"},
    {"random:budget=40,sinks=4,window=16,seed=3,capacity=pooled", "random:budget=512,window=16,capacity=pooled"},
    {"random:budget=40,sinks=4,window=16,seed=3,capacity=pooled,interval=7",
     "random:budget=512,window=16,capacity=pooled,interval=32"},
    {"random:admit=0.4,sinks=4,window=16,seed=3", "random:admit=1,window=16"},
    {"oracle:budget=40,window=16", "oracle:budget=512,window=16"},
    {"oracle:budget=40,window=16,capacity=pooled", "oracle:budget=512,window=16,capacity=pooled"},
    {"oracle:budget=40,window=16,capacity=pooled,interval=5", "oracle:budget=512,window=16,capacity=pooled,interval=5"},
};

}  // namespace

PolicyCase of_declaration(const PolicyInfo& info) {
  const auto text = [&](int budget) {
    std::string out;
    for (const ParameterInfo& parameter : info.parameters) {
      const bool is_budget = parameter.name == "budget";
      if (!is_budget && parameter.name != "window") continue;
      out += (out.empty() ? ":" : ",") + std::string(parameter.name) + "=" + std::to_string(is_budget ? budget : 16);
    }
    return std::string(info.name) + out;
  };
  return {text(40), info.has_budget ? text(512) : "full"};
}

const std::vector<PolicyCase>& policy_cases() {
  static const std::vector<PolicyCase> all = [] {
    std::vector<PolicyCase> out(std::begin(kCases), std::end(kCases));
    for (const PolicyInfo& info : policy_list()) {
      const bool named = std::any_of(std::begin(kCases), std::end(kCases), [&](const PolicyCase& one) {
        return std::string_view(one.policy).substr(0, one.policy.find(':')) == info.name;
      });
      if (!named) out.push_back(of_declaration(info));
    }
    return out;
  }();
  return all;
}

std::vector<GateFile> gates_of_every_kind(const ModelConfig& model) {
  std::vector<GateFile> gates;
  for (const GateKind kind : {GateKind::kvpop_mlstm, GateKind::sp_kv, GateKind::wg_kv, GateKind::dms_separate,
                              GateKind::kvzap_mlp, GateKind::duo})
    gates.push_back(random_gate(kind, /*delay=*/kind == GateKind::kvpop_mlstm ? 16 : 0, /*kernel=*/1, {}, model));
  return gates;
}

const engine::LoadedModel& model_of_every_policy() {
  static const engine::LoadedModel loaded = gated_model(gates_of_every_kind());
  return loaded;
}

const engine::LoadedModel& local_model_of_every_policy() {
  static const engine::LoadedModel loaded = [] {
    ModelConfig config = small_config();
    config.layers[0].window = kLocalWindow;
    return gated_model(gates_of_every_kind(), "cpu", "float32", config);
  }();
  return loaded;
}

ModelConfig family_config(const ModelFamily& family) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = family.tied;
  config.set_family(family);
  if (family.windows == WindowKeys::by_pattern) config.layers[0].window = kLocalWindow;
  if (family.local_rope_theta > 0) config.layers[0].rope_theta = family.local_rope_theta;
  if (!family.scales_local)
    config.layers[1].rope_scaling = {.kind = RopeKind::yarn, .factor = 4, .original_positions = 32};
  if (family.reads("no_rope_layers")) config.layers[1].rotates = false;
  for (LayerConfig& layer : config.layers) {
    if (layer.mlp != MlpKind::experts) continue;
    layer.experts = {
        .n = 12, .per_token = 3, .intermediate = 40, .normalised = true, .biased = family.layer.experts.biased};
  }
  // Layers with experts and without, where the family has both.
  if (family.reads("mlp_only_layers")) config.layers[0].mlp = MlpKind::gated;
  return config;
}

const engine::LoadedModel& family_model_of_every_policy(const ModelFamily& family) {
  static std::map<std::string, engine::LoadedModel> loaded;
  const auto found = loaded.find(family.architecture);
  if (found != loaded.end()) return found->second;
  return loaded
      .emplace(family.architecture, gated_model(gates_of_every_kind(), "cpu", "float32", family_config(family)))
      .first->second;
}

ModelConfig wide_config() {
  ModelConfig config = family_config(*find_family("Gemma3ForCausalLM"));
  config.head_dim = 256;
  config.n_kv_heads = 1;
  return config;
}

const ModelFamily& some_family() {
  const auto families = model_families();
  return families[GENERATE_COPY(range(std::size_t{0}, families.size()))];
}

}  // namespace kvscope::test

#include "engine/core/files/gate/gate_kinds.h"

#include <algorithm>
#include <array>

namespace kvscope {
namespace {

constexpr GateTensorSpec kMlstm[] = {{"wq", "L H 2D D/2"}, {"wk", "L H 2D D/2"}, {"wv", "L H 2D D"},
                                     {"gi", "L H 2D 1"},   {"gf", "L H 2D 1"},   {"bi", "L H 1"},
                                     {"bf", "L H 1"},      {"out", "L H 3D"},    {"b", "L H"}};
constexpr GateTensorSpec kKeyMlp[] = {{"w1", "L H M 2D"}, {"b1", "L H M"}, {"w2", "L H M"}, {"b2", "L H"}};
constexpr GateTensorSpec kKeyLinear[] = {{"w2", "L H 2D"}, {"b2", "L H"}};
constexpr GateTensorSpec kWriteGate[] = {{"pre_norm", "L D"}, {"post_norm", "L D"}, {"w1", "L H M 2D"},
                                         {"b1", "L H M"},     {"w2", "L H M"},      {"b2", "L H"}};
constexpr GateTensorSpec kHiddenMlp[] = {{"w1", "L M F"}, {"b1", "L M"}, {"w2", "L H M"}, {"b2", "L H"}};
constexpr GateTensorSpec kConvolvedMlp[] = {
    {"w1", "L M F"}, {"b1", "L M"}, {"conv", "L M K"}, {"w2", "L H M"}, {"b2", "L H"}};
constexpr GateTensorSpec kHiddenLinear[] = {{"w2", "L H F"}, {"b2", "L H"}};
constexpr GateTensorSpec kNormLinear[] = {{"norm", "L F"}, {"w2", "L H F"}, {"b2", "L H"}};
constexpr GateTensorSpec kDecay[] = {{"log_gamma", "L H"}};
constexpr GateTensorSpec kAlpha[] = {{"alpha", "L H"}};

using Hidden = GateKindInfo::Hidden;

// KVpop, arXiv 2607.05061: window 256, 4 sinks; the mLSTM is read when the token leaves the window.
// SP-KV, arXiv 2605.14037, section 3. WG-KV: its released code compares with >, its paper with >=.
// KVzap: thresholds in use are -3 to -6 (Qwen3-8B), -6 to -9 (Llama-3.1-8B).
constexpr std::array kGateKinds = {
    GateKindInfo{.kind = GateKind::kvpop_mlstm,
                 .name = "kvpop_mlstm",
                 .reads = GateReads::key_value,
                 .has_memory = true,
                 .has_common_zero = false,
                 .tensors = kMlstm,
                 .may_have = kDecay,
                 .defaults = {.delay = 256, .window = 256, .n_sink = 4}},
    GateKindInfo{.kind = GateKind::kvpop_mlp,
                 .name = "kvpop_mlp",
                 .reads = GateReads::key_value,
                 .hidden = Hidden::always,
                 .has_common_zero = false,
                 .tensors = kKeyMlp,
                 .may_have = kDecay,
                 .defaults = {.window = 256, .n_sink = 4, .activation = Activation::silu}},
    GateKindInfo{.kind = GateKind::kvpop_linear,
                 .name = "kvpop_linear",
                 .reads = GateReads::key_value,
                 .has_common_zero = false,
                 .tensors = kKeyLinear,
                 .may_have = kDecay,
                 .defaults = {.window = 256, .n_sink = 4}},
    GateKindInfo{.kind = GateKind::sp_kv,
                 .name = "sp_kv",
                 .reads = GateReads::attention_input,
                 .hidden = Hidden::optional,
                 .tensors = kHiddenMlp,
                 .linear = kHiddenLinear,
                 .convolved = kConvolvedMlp,
                 .defaults = {.window = 128, .activation = Activation::silu, .sigmoid = true, .threshold = 0.5}},
    GateKindInfo{
        .kind = GateKind::wg_kv,
        .name = "wg_kv",
        .reads = GateReads::key_pair,
        .hidden = Hidden::always,
        .tensors = kWriteGate,
        .defaults = {.window = 256, .activation = Activation::gelu, .sigmoid = true, .threshold = 0.1, .strict = true}},
    GateKindInfo{.kind = GateKind::dms,
                 .name = "dms",
                 .reads = GateReads::query_channel,
                 .tensors = {},
                 .defaults = {.delay = 1, .window = 513, .scale = 100, .offset = -5, .negated = true}},
    GateKindInfo{.kind = GateKind::dms_separate,
                 .name = "dms_separate",
                 .reads = GateReads::layer_input,
                 .tensors = kNormLinear,
                 .defaults = {.delay = 1, .window = 513, .scale = 100, .offset = -5, .negated = true}},
    GateKindInfo{.kind = GateKind::kvzap_linear,
                 .name = "kvzap_linear",
                 .reads = GateReads::attention_input,
                 .tensors = kHiddenLinear,
                 .defaults = {.window = 128, .threshold = -4}},
    GateKindInfo{.kind = GateKind::kvzap_mlp,
                 .name = "kvzap_mlp",
                 .reads = GateReads::attention_input,
                 .hidden = Hidden::always,
                 .tensors = kHiddenMlp,
                 .defaults = {.window = 128, .activation = Activation::gelu, .threshold = -4}},
    GateKindInfo{.kind = GateKind::duo,
                 .name = "duo",
                 .reads = GateReads::nothing,
                 .tensors = kAlpha,
                 .defaults = {.window = 256, .n_sink = 128, .threshold = 0.5}},
    GateKindInfo{.kind = GateKind::knorm,
                 .name = "knorm",
                 .reads = GateReads::key,
                 .has_common_zero = false,
                 .tensors = {},
                 .defaults = {.window = 64, .n_sink = 4}},
    GateKindInfo{.kind = GateKind::keydiff,
                 .name = "keydiff",
                 .reads = GateReads::key,
                 .has_memory = true,
                 .tensors = {},
                 .defaults = {.window = 64, .n_sink = 4}},
};

}  // namespace

std::span<const GateKindInfo> gate_kinds() { return kGateKinds; }

const GateKindInfo& info_of(GateKind kind) { return *std::ranges::find(kGateKinds, kind, &GateKindInfo::kind); }

std::optional<GateKind> weightless_gate(const std::filesystem::path& name) {
  const std::optional<GateKind> kind = gate_kind_of(name.string());
  return kind && info_of(*kind).reads == GateReads::key ? kind : std::nullopt;
}

const char* name_of(GateKind kind) { return info_of(kind).name; }

std::optional<GateKind> gate_kind_of(const std::string& name) {
  for (const GateKindInfo& info : kGateKinds) {
    if (name == info.name) return info.kind;
  }
  return std::nullopt;
}

GateConfig default_gate_config(GateKind kind) {
  GateConfig config = info_of(kind).defaults;
  config.kind = kind;
  return config;
}

}  // namespace kvscope

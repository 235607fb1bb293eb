#include "engine/jobs/train/gate_method.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "engine/core/support/error.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {

// A method is a file of its name, a place here, and one in the list.
GateMethod wg_kv_method(), sp_kv_method(), dms_method(), streaming_method(), full_method(), sliding_window_method();

at::Tensor mean_next_token_nll(const GateLossInputs& inputs) {
  const auto counted = [&](const at::Tensor& x) { return x.index_select(0, inputs.counted); };
  return weighted_cross_entropy(counted(inputs.student.flatten(0, 1)), inputs.base.output(),
                                counted(inputs.next.reshape({-1})), inputs.share)
      .loss;
}

std::span<const GateMethod> gate_methods() {
  static const std::array kMethods = {wg_kv_method(),     sp_kv_method(), dms_method(),
                                      streaming_method(), full_method(),  sliding_window_method()};
  return kMethods;
}

const GateMethod& find_gate_method(std::string_view name, const std::string& file) {
  const auto methods = gate_methods();
  const auto found = std::ranges::find(methods, name, &GateMethod::name);
  if (found != methods.end()) return *found;
  std::string list;
  for (const GateMethod& method : methods) list += std::string(method.name) + ", ";
  throw Error(
      {.file = file, .where = "gate.method", .found = std::string(name), .expected = "one of " + list + kKvzapMethod});
}

void check_gate(const GateOptions& options, const std::string& file) {
  const GateMethod& method = find_gate_method(options.method, file);
  const std::string name(method.name);
  const auto refuse = [&](const char* key, const std::string& found, const std::string& expected) {
    throw Error({.file = file, .where = std::string("gate.") + key, .found = found, .expected = expected});
  };
  for (const GateStage& stage : options.stages) {
    if (method.prices_utility && !stage.is_of_utility && stage.weight != 0)
      refuse("stages", "\"weight\" of method " + name,
             "\"price\", added times the mean utility, or \"density_regulariser\", SP-KV's eq. 13, which subtracts it");
    if (!method.prices_utility && stage.is_of_utility)
      refuse("stages", "a price or density_regulariser of method " + name, "weight, or method sp-kv");
  }
  if (!method.kind && !options.trains_base()) {
    refuse("adapter", "none", "one, or all_weights: " + name + " has no gate to train");
  }
  if (!options.thresholds.empty() && (!method.kind || default_gate_config(*method.kind).negated))
    refuse("thresholds", "method " + name, "none: only a gate that keeps what reaches a threshold has some");
  if (options.kernel > 1) {
    const std::string found = std::to_string(options.kernel);
    if (method.kind != GateKind::sp_kv)
      refuse("kernel", found, "1, or the method sp-kv: " + name + " has no convolution");
    if (options.hidden.value_or(method.hidden) == 0)
      refuse("kernel", found + " without a hidden layer", "hidden units");
    if (const int window = options.window.value_or(default_gate_config(*method.kind).window);
        options.kernel / 2 > window) {
      refuse("kernel", found + ", which looks " + std::to_string(options.kernel / 2) + " tokens ahead",
             "half of it within the window of " + std::to_string(window));
    }
  }
  if (!method.reads_teacher) return;
  if (options.all_weights)
    refuse("all_weights", "method " + name,
           "an adapter: this method learns from a dense base model that does not change");
  if (options.weights != GateOptions{}.weights) {
    refuse("weight_text, weight_statement, weight_answer", "method " + name,
           "none: this method does not learn from the next token");
  }
}

}  // namespace kvscope::engine

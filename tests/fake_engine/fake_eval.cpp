#include "tests/fake_engine/fake_eval.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "engine/core/policy/policy_text.h"
#include "engine/core/study/measure/evaluation.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::fake {
namespace {

constexpr int kLength = 64;  // unless one is asked for

/// In [0, 1), from a text alone.
double unit(const std::string& text) { return static_cast<double>(split_mix(fnv1a64(text)) >> 11) * 0x1.0p-53; }

EvalAnswer answer_of(const EvalRequest& request, const std::string& item, bool is_text, const std::string& policy,
                     int index) {
  EvalAnswer answer{.item = item, .is_text = is_text, .policy = policy, .is_dense = policy == "full", .index = index};
  std::string key = answer.key(), gates;
  for (const std::string& gate : request.gates) gates += " " + gate;
  key += answer.is_dense ? "" : gates;
  answer.density = answer.is_dense ? 1 : 0.05 + 0.9 * unit(policy + gates);
  answer.cache_tokens = answer.density * kLength;
  answer.cache_size_end = answer.density;
  answer.cache_size =
      answer.is_dense ? 1 : 0.05 + 0.9 * unit("size " + policy + gates);  // another order than density's
  answer.window = kLength / 4;
  if (is_text) {
    answer.nll =
        2 + unit(item + std::to_string(index)) + (answer.is_dense ? 0 : 0.3 * (1 - answer.density) + 0.01 * unit(key));
  } else {
    answer.expected = "1";
    answer.is_right =
        unit(key + std::to_string(request.seed + static_cast<unsigned>(request.length))) < 0.4 + 0.6 * answer.density;
    answer.answer = answer.is_right ? "1" : "0";
  }
  answer.tokens = kLength;
  answer.seconds = 0.001 + 0.001 * unit(key);
  return answer;
}

}  // namespace

bool play_eval(const nlohmann::json& args, const std::function<void(const nlohmann::json& data)>& row,
               const std::function<bool()>& stop) {
  const auto request = fields_of_json<EvalRequest>(args, "eval");
  const std::string model = std::filesystem::path(request.model).filename().string();
  // As FakeModel; an adapter beside a gate is part of the weights.
  const bool has_adapter = std::ranges::any_of(
      request.gates, [](const std::string& gate) { return gate.find("adapter") != std::string::npos; });
  EvalFacts facts{.model = model,
                  .weights_hash = model.starts_with("other") ? "fa4f"
                                  : has_adapter              ? "fa50"
                                                             : "fa4e",
                  .device = "cpu (fake)",
                  .dtype = "float32",
                  .length = request.length > 0 ? request.length : kLength,
                  .items = request.tasks,
                  .policies = {"full"}};
  for (const std::string& policy : request.policies) {
    PolicySpec::parse(policy).geometry(facts.length);
    if (policy != "full") facts.policies.push_back(policy);
  }
  for (const std::string& text : request.texts) {
    facts.items.push_back(std::filesystem::path(text).filename().string());
    facts.inputs.push_back(facts.items.back() + " " + hex_text(fnv1a64(read_file(text, 1 << 24))));
  }
  row({{"facts", json_of_fields(facts)}});
  const std::unordered_set<std::string> done(request.done.begin(), request.done.end());
  for (std::size_t i = 0; i < facts.items.size(); ++i) {
    const bool is_text = i >= request.tasks.size();
    for (int index = 0; index < (is_text ? request.pieces : request.questions); ++index) {
      for (const std::string& policy : facts.policies) {
        const EvalAnswer answer = answer_of(request, facts.items[i], is_text, policy, index);
        if (done.contains(answer.key())) continue;
        if (stop()) return false;
        row({{"answer", json_of_fields(answer)}});
      }
    }
  }
  return true;
}

}  // namespace kvscope::fake

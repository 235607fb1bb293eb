// Accuracy on tasks by real decoding, through the engine's eval job: the dense model is asked once.

#include "app/studies/eval/evaluate.h"
#include "app/studies/hybrid/hybrid_engine.h"
#include "app/support/paths.h"

namespace kvscope::app {
namespace {

constexpr const char* kDense = "full";  // as eval names the model that the others are compared with

std::vector<std::string> keys_of(const HybridPlan& plan, const std::string& policy) {
  std::vector<std::string> keys;
  for (const std::string& task : plan.tasks)
    for (int i = 0; i < plan.questions; ++i)
      keys.push_back(EvalAnswer{.item = task, .policy = policy, .index = i}.key());
  return keys;
}

}  // namespace

HybridEngine::Answers HybridEngine::answers(const std::string& key, const std::string& policy,
                                            const GlobalHeads* heads) {
  std::string name = "tasks ";
  for (const std::string& task : plan_.tasks) name += task + ",";
  name += std::to_string(plan_.questions) + " " + key;
  const HeadValues counts = values(name, 0, 2, [&] {
    EvalRequest request{.model = plan_.model, .device = device_, .dtype = dtype_, .gates = plan_.gates};
    if (heads != nullptr) {
      load(*heads);
      request.gates.push_back(folder_.string());
    }
    request.tasks = plan_.tasks;
    request.policies = {policy};
    request.questions = plan_.questions;
    request.length = plan_.length;
    request.filler = heldout_text().string();  // as `kvscope eval` has it
    if (policy != kDense) request.done = keys_of(plan_, kDense);
    HeadValues found = {0, 0};
    const auto count = [&](const EvalAnswer& answer) {
      found[0] += answer.mark();
      ++found[1];
    };
    if (!evaluate(job_, request, {.answer = count})) stop();
    return found;
  });
  return {counts.at(0), static_cast<int>(counts.at(1))};
}

HybridEngine::Answers HybridEngine::dense_answers() { return answers("dense", kDense, nullptr); }
HybridEngine::Answers HybridEngine::gated_answers() { return answers("gated", plan_.policy->written(), nullptr); }
HybridEngine::Answers HybridEngine::hybrid_answers(const GlobalHeads& heads) {
  return answers("heads " + text_of(heads), "hybrid:heads=d", &heads);
}

}  // namespace kvscope::app

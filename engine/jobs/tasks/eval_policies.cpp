#include "engine/jobs/tasks/eval_policies.h"

#include <algorithm>

#include "engine/decode/run.h"

namespace kvscope::engine {
namespace {

constexpr const char* kDense = "full";

/// A scorer has the window that it was trained for, so that a short text leaves its policy more than a quarter.
std::vector<std::string> suitable(const LoadedModel& model, int length) {
  const int budget = length / 4, delay = model.scorer_delay();
  return {"streaming:sinks=4,window=" + std::to_string(std::max(1, budget - 4)),
          "random:keep=25%" + SweepPoint{"25%", budget}.window(),
          delay > 0 ? "kvpop:budget=" + std::to_string(std::max(budget, 4 + delay + 16))
                    : "snapkv:keep=25%" + SweepPoint{"25%", budget}.window()};
}

}  // namespace

std::vector<std::string> sweep_policies(int length) {
  std::vector<std::string> all;
  for (const auto& [percent, share] : {std::pair("50%", 0.5), std::pair("25%", 0.25), std::pair("12.5%", 0.125)}) {
    const auto some = swept_policies({percent, static_cast<int>(length * share)});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<std::string> policies_of(const EvalRequest& request, const LoadedModel& model, int length) {
  std::vector<std::string> wanted = request.policies;
  if (request.sweep) {
    const auto sweep = sweep_policies(length);
    wanted.insert(wanted.end(), sweep.begin(), sweep.end());
  }
  if (wanted.empty()) wanted = suitable(model, length);
  std::vector<std::string> policies{kDense};
  for (const std::string& text : wanted) {
    // A budget below sinks and window is an error here, not in the middle of the work.
    resolved_policy(PolicySpec::parse(text), model).geometry(length);
    if (std::find(policies.begin(), policies.end(), text) == policies.end()) policies.push_back(text);
  }
  return policies;
}

}  // namespace kvscope::engine

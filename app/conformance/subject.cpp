#include "app/conformance/subject.h"

#include <algorithm>

#include "app/conformance/checks.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {

PolicySpec with_values(const PolicyInfo& policy, std::initializer_list<WantedValue> wanted) {
  std::string text;
  for (const auto& [name, value] : wanted) {
    const auto parameter = std::ranges::find(policy.parameters, name, &ParameterInfo::name);
    if (parameter == policy.parameters.end()) continue;
    text += (text.empty() ? ":" : ",") + std::string(name) + "=" +
            number_text(std::clamp(value, parameter->min, parameter->max));
  }
  return PolicySpec::parse(std::string(policy.name) + text);
}

void Subject::need(std::string_view service) const {
  if (!does(service)) throw NotServed(protocol::why_no_service(offer, service));
}

bool Subject::runs(const char* policy) const { return offer.runs(*find_policy(policy)); }

protocol::LoadRequest Subject::load_request(const std::string& path) const {
  return {.model = path, .device = options.device, .dtype = options.dtype, .gates = options.gates};
}

PolicySpec Subject::base_policy() const {
  constexpr double kSinks = 4, kWindow = 8, kBudget = 20;
  if (runs("streaming")) return with_values(*find_policy("streaming"), {{"sinks", kSinks}, {"window", kWindow}});
  for (const DeclaredPolicy* policy : offer.policies) {
    if (policy->declaration.rule == Declaration::Rule::none) continue;
    return with_values(policy->policy.info, {{"budget", kBudget}, {"sinks", kSinks}, {"window", kWindow}});
  }
  if (runs("full")) return PolicySpec::parse("full");
  if (!offer.default_policy.empty()) return PolicySpec::parse(offer.default_policy);
  if (!offer.policies.empty()) return PolicySpec::parse(offer.policies.front()->declaration.name);
  throw NotServed(
      "The engine has no policy that the suite can choose: it declares none, and runs neither full nor streaming.");
}

std::vector<std::int32_t> Subject::prompt(int n) const {
  if (text_ids.empty()) throw NotServed("No run has read the text prompt, so there are no token ids to ask with.");
  std::vector<std::int32_t> ids;
  const std::size_t length = text_ids.size();
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) ids.push_back(text_ids[i * (i / length + 1) % length]);
  return ids;
}

RunRequest Subject::request(const PolicySpec& policy, int n_prompt, int n_new) const {
  const int n = std::min(n_prompt, std::max(1, model.max_positions / 2));
  RunRequest request{.prompt_ids = prompt(n), .policy = policy};
  request.max_tokens = std::clamp(n_new, 1, std::max(1, model.max_positions - n));
  request.oracle = false;
  request.stop_at_eos = false;
  return request;
}

double Subject::tolerance() const { return model.dtype == "float32" ? 1e-3 : 3e-2; }

}  // namespace kvscope::app::conformance

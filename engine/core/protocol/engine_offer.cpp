#include "engine/core/protocol/engine_offer.h"

#include <algorithm>
#include <array>

#include "engine/core/policy/policy.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

constexpr std::size_t kMostPolicies = 256, kMostGreeting = 1u << 20, kMostName = 200;
constexpr int kMostRuns = 1024, kMostGpus = 1024;
constexpr std::string_view kOwnEngine = "kvscope-engine ";

constexpr auto kServices = std::to_array<Service>({
    {"run", "decode"},
    {"score", "score a text"},
    {"attention", "show the attention of single tokens"},
    {"query_attention", "show the attention of single queries"},
    {"gate_scores", "score tokens with gates"},
    {"doctor", "check its installation"},
    {"policy", "change a policy during a run"},
    {"oracle", "compute the oracle"},
    {"output_error", "measure the output error"},
    {"thresholds", "take thresholds or budgets of heads"},
    {"job.eval", "run evaluations"},
    {"job.train", "train gates"},
    {"job.bench", "run benchmarks"},
});

/// The field, a list of at most so many; null if it is not there.
const json* list(const json& event, const char* key, std::size_t most) {
  if (!event.contains(key)) return nullptr;
  const json& value = field(event, key, json::value_t::array);
  if (value.size() > most)
    bad_field(event, key, std::to_string(value.size()) + " entries", "at most " + std::to_string(most));
  return &value;
}

/// Words of a list, each one of those that `is_known` knows.
template <typename Known>
std::optional<std::vector<std::string>> words(const json& event, const char* key, const char* expected,
                                              Known is_known) {
  const json* value = list(event, key, kMostPolicies);
  if (value == nullptr) return std::nullopt;
  for (const json& one : *value)
    if (!one.is_string() || !is_known(one.get<std::string>()))
      bad_field(event, key, one.is_string() ? in_quotes(one.get<std::string>()) : one.type_name(), expected);
  return value->get<std::vector<std::string>>();
}

std::vector<const DeclaredPolicy*> declared(const json& event) {
  std::vector<const DeclaredPolicy*> policies;
  const json* value = list(event, "policies", kMostPolicies);
  for (std::size_t i = 0; value != nullptr && i < value->size(); ++i) {
    const std::string place = "policies[" + std::to_string(i) + "]";
    policies.push_back(declare_policy(declaration_of_json((*value)[i], place)));
    if (std::ranges::count(policies, policies.back()->declaration.name,
                           [](const auto* p) { return p->declaration.name; }) > 1)
      bad_field(event, place + ".name", in_quotes(policies.back()->declaration.name) + " again", "each policy once");
  }
  offer_policies(policies);
  return policies;
}

/// What both events say, over what was known before.
void read_offer(const json& event, EngineOffer& offer) {
  // A service of a later version is one that this program never asks for.
  if (auto serves = words(event, "serves", "texts", [](const std::string&) { return true; })) offer.serves = serves;
  if (event.contains("policies")) offer.policies = declared(event);
  const auto is_own = [](const std::string& name) { return !is_declared_name(name) && find_policy(name) != nullptr; };
  if (auto own = words(event, "builtin_policies", "names of KVScope's policies", is_own)) offer.builtin_policies = own;
  if (event.contains("runs_at_once"))
    offer.runs_at_once = static_cast<int>(integer(event, "runs_at_once", 1, kMostRuns));
  if (event.contains("default_policy")) offer.default_policy = text(event, "default_policy");
  if (offer.default_policy.empty()) return;
  std::string why;
  try {
    why = why_no_policy(offer, PolicySpec::parse(offer.default_policy));
  } catch (const Error& error) {
    why = error.what();
  }
  if (why.empty()) return;
  if (event.contains("default_policy"))
    bad_field(event, "default_policy", in_quotes(offer.default_policy) + " (" + why + ")", "a policy of this engine");
  offer.default_policy.clear();  // the greeting's, which this model does not have
}

/// Errors of declarations are those of a program that is no file.
template <typename Read>
auto as_resource(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.code = ExitCode::resource;
    throw Error(std::move(parts));
  }
}

std::string named(const EngineOffer& offer) {
  return "The engine" + (offer.name.empty() ? "" : " (" + offer.name + ")");
}

/// What a request asks for, the first that is not served.
struct Asks {
  const EngineOffer& offer;
  std::string operator()(const RunRequest& r) const {
    const bool fixed = !r.thresholds.empty() || !r.budgets.empty();
    std::string why =
        first({{"run", true}, {"oracle", r.oracle}, {"output_error", r.output_error}, {"thresholds", fixed}});
    if (why.empty()) why = why_no_policy(offer, r.policy);
    return why.empty() && !r.changes.empty() ? why_no_service(offer, "policy") : why;
  }
  std::string operator()(const ScoreRequest& r) const {
    const bool fixed = !r.thresholds.empty() || !r.budgets.empty();
    std::string why = first(
        {{"score", true}, {"oracle", r.oracle.has_value()}, {"output_error", r.output_error}, {"thresholds", fixed}});
    return why.empty() ? why_no_policy(offer, r.policy) : why;
  }
  std::string operator()(const TokenAttentionRequest&) const { return why_no_service(offer, "attention"); }
  std::string operator()(const QueryAttentionRequest&) const { return why_no_service(offer, "query_attention"); }
  std::string operator()(const GateScoresRequest&) const { return why_no_service(offer, "gate_scores"); }
  std::string operator()(const JobRequest& r) const { return why_no_service(offer, "job." + r.job); }
  std::string operator()(const DoctorRequest&) const { return why_no_service(offer, "doctor"); }
  std::string operator()(const PolicyRequest&) const { return why_no_service(offer, "policy"); }
  std::string operator()(const auto&) const { return ""; }  // load, cancel and quit are always served

  std::string first(std::initializer_list<std::pair<std::string_view, bool>> services) const {
    for (const auto& [service, is_asked] : services)
      if (is_asked && !offer.does(service)) return why_no_service(offer, service);
    return "";
  }
};

}  // namespace

std::span<const Service> services() { return kServices; }

bool EngineOffer::does(std::string_view service) const { return !serves || std::ranges::count(*serves, service) > 0; }

bool EngineOffer::runs(const PolicyInfo& policy) const {
  if (is_declared_name(policy.name))
    return std::ranges::any_of(policies, [&](const DeclaredPolicy* one) { return &one->policy.info == &policy; });
  return !builtin_policies || std::ranges::count(*builtin_policies, policy.name) > 0;
}

std::string EngineOffer::recorder() const { return name.starts_with(kOwnEngine) ? "" : name; }

std::string why_no_service(const EngineOffer& offer, std::string_view service) {
  if (offer.does(service)) return "";
  const auto* found = std::ranges::find(kServices, service, &Service::word);
  const std::string action = found == kServices.end() ? "serve " + std::string(service) : std::string(found->action);
  return named(offer) + " cannot " + action + ".";
}

std::string why_no_policy(const EngineOffer& offer, const PolicySpec& policy) {
  const PolicyInfo& info = policy_of(policy).info;
  if (offer.runs(info)) return "";
  if (policy.declared == nullptr) return named(offer) + " cannot run KVScope's policy " + policy.name + ".";
  const bool other = std::ranges::any_of(
      offer.policies, [&](const DeclaredPolicy* one) { return one->declaration.name == policy.name; });
  return named(offer) + (other ? " declares another version of " : " does not have the policy ") + policy.name + ".";
}

std::string why_not(const EngineOffer& offer, const Request& request) { return std::visit(Asks{offer}, request); }

RunRequest fitted(const EngineOffer& offer, RunRequest request) {
  if (!offer.does("oracle") && request.oracle_spec == OracleSpec()) request.oracle = false;
  return request;
}

EngineOffer own_offer(int runs_at_once) {
  EngineOffer offer{.name = std::string(kOwnEngine) + std::string(version()),
                    .serves = std::vector<std::string>(),
                    .runs_at_once = runs_at_once};
  for (const Service& service : kServices) offer.serves->emplace_back(service.word);
  return offer;
}

EngineOffer offer_of_hello(const json& event) {
  return as_resource([&] {
    if (const std::size_t size = json::to_cbor(event).size(); size > kMostGreeting)
      bad_field(event, "policies", std::to_string(size) + " bytes of greeting",
                "at most " + std::to_string(kMostGreeting));
    EngineOffer offer;
    if (event.contains("name")) offer.name = text(event, "name");
    if (offer.name.size() > kMostName || std::ranges::any_of(offer.name, [](unsigned char c) { return c < 0x20; }))
      bad_field(event, "name", in_quotes(offer.name), "one line of at most " + std::to_string(kMostName) + " bytes");
    if (event.contains("gpus")) offer.gpus = static_cast<int>(integer(event, "gpus", 0, kMostGpus));
    read_offer(event, offer);
    return offer;
  });
}

EngineOffer offer_of_load(const EngineOffer& greeting, const json& event, int n_layers) {
  return as_resource([&] {
    EngineOffer offer = greeting;
    offer.local_layers.clear();
    read_offer(event, offer);
    const json* local = list(event, "local_layers", static_cast<std::size_t>(std::max(0, n_layers)));
    for (std::size_t i = 0; local != nullptr && i < local->size(); ++i) {
      const json& one = (*local)[i];
      const LocalLayer layer{static_cast<int>(integer(one, "layer", 0, n_layers - 1)),
                             static_cast<int>(integer(one, "window", 1, kMaxPositions))};
      if (std::ranges::count(offer.local_layers, layer.layer, &LocalLayer::layer) > 0)
        bad_field(event, "local_layers", "layer " + std::to_string(layer.layer) + " twice", "each layer once");
      offer.local_layers.push_back(layer);
    }
    return offer;
  });
}

json to_json(const EngineOffer& offer) {
  json fields = json::object();
  if (!offer.name.empty()) fields["name"] = offer.name;
  if (offer.serves) fields["serves"] = *offer.serves;
  for (const DeclaredPolicy* policy : offer.policies)
    fields["policies"].push_back(declaration_json(policy->declaration));
  if (offer.builtin_policies) fields["builtin_policies"] = *offer.builtin_policies;
  if (!offer.default_policy.empty()) fields["default_policy"] = offer.default_policy;
  if (offer.runs_at_once > 1) fields["runs_at_once"] = offer.runs_at_once;
  if (offer.gpus) fields["gpus"] = *offer.gpus;
  for (const LocalLayer& layer : offer.local_layers)
    fields["local_layers"].push_back({{"layer", layer.layer}, {"window", layer.window}});
  return fields;
}

}  // namespace kvscope::protocol

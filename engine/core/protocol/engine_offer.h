#pragma once
// What an engine can do: its greeting and the end of a load say so. An engine that says nothing does everything.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/requests.h"

namespace kvscope::protocol {

/// The queries of a layer that see the newest `window` positions alone, by the model's design.
struct LocalLayer {
  int layer = 0, window = 0;
  bool operator==(const LocalLayer&) const = default;
};

struct EngineOffer {
  std::string name;                                          // "kvscope.engine 0.1.0, transformers 5.2.0"
  std::optional<std::vector<std::string>> serves;            // words of kServices; none: all of them
  std::vector<const DeclaredPolicy*> policies;               // that it declares
  std::optional<std::vector<std::string>> builtin_policies;  // those of KVScope's that it can run; none: all
  std::string default_policy;                                // text of one; empty: the program's own
  std::vector<LocalLayer> local_layers;
  int runs_at_once = 1;     // `run` requests that it works on at the same time, at most
  std::optional<int> gpus;  // of its machine, as cuda:0, cuda:1 ...; none: it does not say

  bool does(std::string_view service) const;
  bool runs(const PolicyInfo& policy) const;
  /// The name where another engine than KVScope's records runs; else empty.
  std::string recorder() const;
  bool operator==(const EngineOffer&) const = default;
};

/// What an engine may serve, and what it then does: "the engine cannot ...".
struct Service {
  std::string_view word, action;
};
std::span<const Service> services();

/// Why the engine does not serve the request, a sentence; empty: it does. The same of one service and of one policy.
std::string why_not(const EngineOffer& offer, const Request& request);
std::string why_no_service(const EngineOffer& offer, std::string_view service);
std::string why_no_policy(const EngineOffer& offer, const PolicySpec& policy);
/// The request without what is only a default: an oracle that the engine does not compute. One that was described is asked
/// for, and stays.
RunRequest fitted(const EngineOffer& offer, RunRequest request);

/// What KVScope's own engine says: its name, that it serves everything, and how many runs it takes at once.
EngineOffer own_offer(int runs_at_once);
/// Of a greeting. Registers what it declares, so that texts of policies can name it from then on. Throws Error (resource)
/// that names the field.
EngineOffer offer_of_hello(const nlohmann::json& event);
/// Of the end of a load, which has the rest of `greeting` where it says nothing. `n_layers`: of the model.
EngineOffer offer_of_load(const EngineOffer& greeting, const nlohmann::json& event, int n_layers);
/// The fields of a greeting, for an event to take up.
nlohmann::json to_json(const EngineOffer& offer);

}  // namespace kvscope::protocol

#pragma once
// The engine that is checked, with the model that it has loaded, and the requests that checks make of it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/conformance/conformance.h"
#include "app/conformance/conversation.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app::conformance {

struct Subject {
  Conversation& talk;
  const ConformanceOptions& options;
  EngineGreeting greeting = {};
  protocol::EngineOffer offer = {};  // of the greeting, then with the model
  ModelInfo model = {};
  GatesOfModel gates = {};
  std::vector<std::int32_t> text_ids = {};  // of kPrompt, once a run has read it

  bool does(std::string_view service) const { return offer.does(service); }
  /// Throws NotServed, with the sentence of a service that is not declared.
  void need(std::string_view service) const;
  bool runs(const char* policy) const;
  /// The request that loads the model. Another path may be tried.
  protocol::LoadRequest load_request(const std::string& path) const;

  /// A policy that evicts and needs no scores, if the engine has one: with it most checks run.
  PolicySpec base_policy() const;
  /// `n` tokens made of those of the text prompt, the same every time.
  std::vector<std::int32_t> prompt(int n) const;
  /// Greedy, by token ids, without an oracle. Both lengths are cut to the model's context.
  RunRequest request(const PolicySpec& policy, int n_prompt, int n_new) const;
  /// By how much two computations of the same probability, from 0 to 1, or log-probability may differ.
  double tolerance() const;
};

inline constexpr const char* kPrompt = "The cache keeps what later tokens will ask for, and drops the rest.";
inline constexpr int kBasePrompt = 32, kBaseNew = 16;

/// `policy` by its name with each of these values that it has a parameter for, as far as the range allows.
struct WantedValue {
  std::string_view parameter;
  double value;
};
PolicySpec with_values(const PolicyInfo& policy, std::initializer_list<WantedValue> wanted);

}  // namespace kvscope::app::conformance

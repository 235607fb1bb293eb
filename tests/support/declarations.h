#pragma once
// Declarations of policies, as an engine sends them.

#include <nlohmann/json.hpp>

#include "engine/core/policy/declared_policy.h"

namespace kvscope::test {

/// A policy of tests: under a budget, by the rule ("none", "top_k").
inline nlohmann::json declared_json(const char* name, const char* title, const char* rule) {
  return {{"name", name},
          {"title", title},
          {"definition", "Keeps the tokens that the engine likes most."},
          {"evicted", "the engine liked 3 others more"},
          {"kept", "the engine likes it"},
          {"budget", true},
          {"rule", rule},
          {"prompt", "sparse"},
          {"parameters",
           {{{"name", "budget"},
             {"kind", "tokens"},
             {"unit", "tokens"},
             {"default", 64},
             {"min", 1},
             {"max", 4096},
             {"definition", "Tokens that a head may hold."}},
            {{"name", "sinks"},
             {"kind", "tokens"},
             {"unit", "tokens"},
             {"default", 2},
             {"min", 0},
             {"max", 64},
             {"definition", "First tokens."}},
            {{"name", "window"},
             {"kind", "tokens"},
             {"unit", "tokens"},
             {"default", 8},
             {"min", 1},
             {"max", 512},
             {"definition", "Newest tokens."}},
            {{"name", "mix"},
             {"kind", "real"},
             {"unit", ""},
             {"default", 0.5},
             {"min", 0},
             {"max", 1},
             {"definition", "Share of the recent attention."}},
            {{"name", "read"},
             {"kind", "tokens"},
             {"unit", "tokens"},
             {"default", 0.25},
             {"min", 0},
             {"max", 4096},
             {"definition", "Tokens that it reads."},
             {"share", true}},
            {{"name", "pooling"},
             {"kind", "choice"},
             {"unit", ""},
             {"default", 1},
             {"choices", {"mean", "max"}},
             {"definition", "How neighbours are pooled."}},
            {{"name", "decay"},
             {"kind", "count"},
             {"unit", "steps"},
             {"default", 0},
             {"min", 0},
             {"max", 100},
             {"definition", "Something else than KVScope's decay."}}}}};
}

/// The policy of a declaration, as an engine's greeting would have it.
inline const DeclaredPolicy* declare(const nlohmann::json& object) {
  return declare_policy(declaration_of_json(object));
}

}  // namespace kvscope::test

#pragma once
// What stands in the way of a run, said before it begins, with what would remove it: the window checks while one types,
// the engine when the run is asked for.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// The run that is meant. What is not known is not judged.
struct RunQuestion {
  PolicySpec policy;                    // as it was asked for
  HeadsOfModel shape = {};              // without layers: not known
  const GatesOfModel* gates = nullptr;  // null: nobody has said which there are
  int prompt_tokens = -1;               // -1: not known
  int new_tokens = 0;                   // at most
  int max_positions = 0;                // the model's context; 0: not known
};

struct RunProblem {
  enum class Kind { policy, budget, window, gate, heads, decay, prompt, answer };
  Kind kind = Kind::policy;
  std::string text;                       // a sentence: "The scorer was trained with a window of 64 tokens, not 14."
  std::string remedy = {};                // on the button that removes it: "Use 64"; empty: nothing simple does
  std::optional<PolicySpec> policy = {};  // what the remedy makes of the policy
  std::optional<int> new_tokens = {};     // ... of the answer's length
};

/// Everything that is wrong, what is asked first in front. Of a budget that is written as a share nothing is: it is
/// raised (least_budget.h).
std::vector<RunProblem> run_problems(const RunQuestion& question);

/// Whether a scorer of this kind and delay says what it says at one moment alone: KVpop's mLSTM learned its score for the
/// query at which the token leaves the window, and with another window it would be read from a state that it never saw.
/// Others say the same of a token whenever they are asked, once they have seen what they look at: the token (delay 0), the
/// next one (DMS), half a kernel behind (SP-KV). `kind` "": not known, as of old traces.
bool fixes_window(std::string_view kind, int delay);
/// Whether the score of a token is there, and is the one that was trained, when the token leaves the window.
bool goes_with_delay(int window, std::string_view kind, int delay);
/// The window that the policy's scorer fixes; nothing where any will do, or no gate says its delay.
std::optional<int> fixed_window(const PolicySpec& asked, const GatesOfModel& gates);

/// What a policy decides by, as far as somebody has to provide it.
enum class PolicyNeed {
  nothing,    // position, chance
  attention,  // of the queries that it sees, or of those to come
  gate        // scores of a scorer or gate, or the heads of a directory
};
PolicyNeed need_of(const PolicySpec& spec);
/// Whether the gates have what a policy of PolicyNeed::gate reads.
bool has_gate_for(const PolicySpec& spec, const GatesOfModel& gates);

/// "a gate of WG-KV", "a scorer or gate of any kind".
std::string gate_kinds_in_words(std::span<const std::string_view> kinds);

}  // namespace kvscope

#pragma once
// What a study of hybrid heads is asked for, and the pieces of text that it measures on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_client/engine_job.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/study/heads/head_choice.h"

namespace kvscope::app {

/// By what heads are ordered; a greater value is a head that rather stays global.
enum class SignalKind : std::uint8_t {
  density,       // admitted_density() under a gate's policy
  oracle,        // mass_lost_if_local()
  output_error,  // output_error_map() while every head is local
  nll,           // NLL with this head local alone - NLL with none
  nll_alone,     // NLL with every head local - NLL with all but this one
  file           // the values of a head directory
};

struct HybridPlan {
  std::string model;
  std::vector<std::string> texts;
  int pieces = 8, length = 512, chunk = 16;  // pieces of each text, tokens of a piece, tokens between decisions
  SignalKind signal = SignalKind::density;
  std::string signal_text = "density", signal_folder;
  std::optional<PolicySpec> policy;   // the gate's: of density, coverage and a row of its own
  std::vector<std::string> gates;     // to be loaded besides the heads
  std::vector<ChoiceRule> rules;      // in the order of kChoiceRules
  bool greedy = false;                // also heads by measured NLL, in rounds
  bool budgets = false;               // also a budget for each head, by the signal
  std::vector<double> shares;         // of the heads
  std::optional<double> most_bytes;   // one share more: what fits
  int context = 0;                    // tokens, of the column of bytes; 0: the model's
  std::vector<std::uint64_t> seeds;   // of c
  int cap = 0;                        // of capped
  std::optional<int> n_sink, window;  // of local heads; the policy's, or 4 and 128
  bool again = true;
  int greedy_pieces = 1;
  std::vector<std::string> tasks;
  int questions = 50;
  std::string output, journal, point;
  std::vector<HeadTarget> exports;  // of `point`
  bool keep_journal = false, overwrite = false, dry_run = false;
};

/// Names of SignalKind but `file`, by their numbers.
inline constexpr std::string_view kSignalNames[] = {"density", "oracle", "output-error", "nll", "nll-alone"};

/// Finds the policy, if the plan has none, and its gates, and checks that every file can be written. Throws Error (usage, bad
/// input): nothing has been started or written then.
void complete_plan(HybridPlan& plan, const EngineJobOptions& engine);

struct TextPieces {
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::string> inputs;  // "heldout.txt 1f2e...": each file with a hash of its bytes
};
/// As `eval --texts` cuts them: at equal distances, each with the text's first token where the model has one. Throws Error
/// for a text too short.
TextPieces cut_pieces(const HybridPlan& plan);

/// Greedy goes at most ten rounds, after each of which another twentieth of the heads is global: how many after `round`.
inline constexpr int kGreedyRounds = 10;
inline int greedy_count(int n_heads, int round) { return (n_heads * round + 10) / 20; }

/// How many heads the rules that are asked for a number get: those of a and b, if they are in the plan, of every share and of
/// what fits in most_bytes; ascending, each once. Throws Error (usage) for what the model, cap or rounds cannot meet.
std::vector<int> head_counts(const HybridPlan& plan, const HeadShape& shape, const CacheShape& cache);

}  // namespace kvscope::app

#pragma once
// The passes of a study of hybrid heads: one engine, asked for what the journal does not have yet.

#include <map>
#include <memory>

#include "app/engine_client/engine_job.h"
#include "app/studies/hybrid/hybrid_journal.h"
#include "app/studies/hybrid/hybrid_plan.h"
#include "engine/core/policy/gates_of_model.h"

namespace kvscope::app {

/// A folder for the heads that the engine is given, removed with what is in it.
class HeadFolders {
 public:
  HeadFolders();
  ~HeadFolders();
  HeadFolders(const HeadFolders&) = delete;
  HeadFolders& operator=(const HeadFolders&) = delete;
  /// Another one each time, as an engine knows what it has loaded by its path; the one before is removed.
  std::filesystem::path next();

 private:
  std::filesystem::path path_;
  int n_ = 0;
};

class HybridEngine {
 public:
  /// Starts the engine and loads the model with the gates. Throws Error.
  HybridEngine(const EngineJobOptions& engine, const HybridPlan& plan, const TextPieces& pieces);

  const ModelInfo& model() const { return model_; }
  HeadShape shape() const { return {model_.n_layers, model_.n_kv_heads}; }
  /// Of local heads and of the column of bytes.
  const CacheShape& cache() const { return cache_; }
  /// The plan's policy with the gate's numbers; none if it has none.
  const std::optional<PolicySpec>& policy() const { return policy_; }
  int n_pieces() const { return static_cast<int>(pieces_.ids.size()); }
  /// What the journal is of, and the study's facts.
  nlohmann::ordered_json facts() const;
  /// From now on (without: never) passes are taken from the journal, and written into it. `n_expected`: for the progress.
  void begin(HybridJournal& journal, int n_expected);
  void clear_progress() { job_.progress().clear(); }
  int n_measured() const { return n_measured_; }
  double seconds() const;

  // Of one piece.
  double dense_nll(int piece);
  double gated_nll(int piece);
  /// By `score` under hybrid:heads=d, the heads as a directory that was written and read back.
  double hybrid_nll(const GlobalHeads& heads, int piece);
  HeadValues density(int piece);
  /// The same with only these heads under the gate, and the others local.
  HeadValues density_under(const GlobalHeads& heads, int piece);
  /// Under the gate's policy with a threshold for each head, solved on the scores that the piece has under that policy so that
  /// each keeps its share of the tokens outside sinks and window; by two readings of the piece.
  struct BudgetReading {
    double nll = 0;
    HeadValues kept;  // share that came of it, as density() counts
  };
  BudgetReading read_budgets(const HeadValues& shares, int piece);
  HeadValues oracle_mass_lost(int piece);
  HeadValues output_error(int piece);

  /// The sum of the answers' marks and their number, by real decoding of questions as long as a piece.
  struct Answers {
    double marks = 0;
    int n = 0;
  };
  Answers dense_answers();
  Answers gated_answers();
  Answers hybrid_answers(const GlobalHeads& heads);

 private:
  void load(const GlobalHeads& heads);
  void load_gates(const std::vector<std::string>& gates);
  double score(const PolicySpec& policy, int piece);
  RunRecord read(RunRequest request, int piece);
  std::string policy_of_again() const;
  Answers answers(const std::string& key, const std::string& policy, const GlobalHeads* heads);
  const HeadValues& values(const std::string& key, int n_passes, int n_values,
                           const std::function<HeadValues()>& measure);
  [[noreturn]] void stop() const;

  const HybridPlan& plan_;
  const TextPieces& pieces_;
  std::string device_, dtype_;  // as they were asked for
  EngineJob job_;
  HeadFolders folders_;
  ModelInfo model_;
  GatesOfModel gates_;
  std::optional<PolicySpec> policy_;
  CacheShape cache_;
  HybridJournal* journal_ = nullptr;
  HeadValues unkept_;   // without a journal, what was measured last
  std::string loaded_;  // the heads, as a text; empty: none
  std::filesystem::path folder_;
  int n_expected_ = 0, n_done_ = 0, n_measured_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "0110": of every head whether it is global.
std::string text_of(const GlobalHeads& heads);

}  // namespace kvscope::app

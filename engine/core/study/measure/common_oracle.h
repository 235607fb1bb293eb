#pragma once
// One yardstick for two runs of the same tokens: judged each by an oracle of its own, a run of a small budget looks worse
// than one of a large budget, whatever it keeps.

#include <array>
#include <optional>
#include <string>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope {

/// Sinks and window: the larger of theirs; no decay; masses of the run with the larger window, or of the only one that
/// recorded any. Capacity: the smaller of the policies' budgets if both have one, else, or where that leaves no room
/// beside sinks and window, or nothing to leave out, 25 % of the shorter run, as far as it came; of a run so short that this
/// leaves none either, sinks, window and 25 % of the rest.
/// Where neither run has lost a token of a head yet, as in a dense prompt, nothing was chosen. Runs that hold the same tokens
/// throughout under one policy are asked the same by their own oracle, so it is that one.
/// Refers to the runs.
class CommonOracle {
 public:
  /// nullopt if neither run recorded masses, or their texts part: what a token of the one met later says nothing of the other's.
  static std::optional<CommonOracle> of(const RunRecord& a, const RunRecord& b);
  /// `run`: a or b.
  HeadMap metric(const RunRecord& run, Metric metric, std::int32_t q) const {
    return head_metric(oracle(run), run, metric, q);
  }
  Oracle oracle(const RunRecord& run) const {
    return is_own_ ? Oracle(run) : Oracle(run, spec_, *teacher_, n_sink_, window_, pair_);
  }
  /// Whether it asks a run more than its own oracle does: by q, somebody has lost a token in some head.
  bool asks(std::int32_t q) const;
  const OracleSpec& spec() const { return spec_; }
  bool is_own() const { return is_own_; }  // runs that hold the same: what it asks is what each one's own oracle asks
  int tokens() const { return tokens_; }   // of the capacity, sinks and window included
  /// "shared oracle, k = 68 of 180 tokens, 88 with sinks and window; chance A 0.01, B 0.23": means over the heads at q. Of runs that
  /// hold the same: "shared oracle, as many tokens as both keep; ...".
  std::string note(const RunRecord& a, const RunRecord& b, std::int32_t q) const;

 private:
  OracleSpec spec_;
  const RunRecord* teacher_ = nullptr;
  int n_sink_ = 0, window_ = 0, tokens_ = 0, n_ = 0;
  std::array<const RunRecord*, 2> pair_{};  // where they have the same heads
  bool is_own_ = false;
};

}  // namespace kvscope

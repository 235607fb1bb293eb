#pragma once
// By which oracle a recall goes, and how many tokens that oracle holds: said in the label of every such number.

#include <string>
#include <string_view>

#include "engine/core/study/measure/oracle.h"

namespace kvscope {

/// Whose oracle a run is held against: that of its own masses and capacity, or one that it shares with another run.
enum class OracleOf : bool { own, shared };

/// "k = 87", "mean k = 87.3" where it is not the same everywhere; "k = –" where nothing was chosen. k: tokens that the oracle
/// holds of one head, sinks and window not counted.
std::string k_text(const OracleMean& mean);
/// "own oracle, k = 87".
std::string oracle_label(OracleOf whose, const OracleMean& mean);
/// Of two runs: "own oracles, k = 87 | 337" where they differ.
std::string oracle_label(OracleOf whose, const OracleMean& a, const OracleMean& b);
/// "recall (own oracle, k = 87)".
std::string recall_label(OracleOf whose, const OracleMean& mean);

/// What the recall of a run is, in a sentence.
inline constexpr std::string_view kRecallDefinition =
    "share of the oracle's k tokens that the policy keeps too, mean over all pairs of head and query with a choice, "
    "equally weighted; a run's own oracle holds as many tokens as the head keeps at that query";

}  // namespace kvscope

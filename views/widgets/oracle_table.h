#pragma once
// The selected head under every oracle that the run recorded, side by side.

#include <string>
#include <vector>

#include "engine/core/study/measure/oracle.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

/// What is asked of all queries up to q, or of all oracles: too slow for a frame.
struct OracleAnswers {
  OracleMean mean, mean_b;  // as PairedOracle judges
  std::string common;       // what A and B are both judged by; empty: each by its own
  struct Row {
    std::string name;        // "rms x output"
    double of_head, pooled;  // recall at q
  };
  std::vector<Row> rows;  // of what was recorded
};
/// Of A at its cursor and, if there is one, of B at its.
OracleAnswers oracle_answers(const RunRecord& a, const Cursor& at, const RunRecord* b, const Cursor& at_b);

class OracleTable {
 public:
  explicit OracleTable(const ViewServices& services) : services_(services), debounced_(services.wake) {}
  /// Nothing until the selection has stayed for a moment.
  std::optional<OracleAnswers> answers(const ShownRun& a, const Cursor& at, const ShownRun* b, const Cursor& at_b);
  /// Of A. Items: "inspector.oracle.<name>", with their numbers as text.
  void draw(const OracleAnswers& answers, bool beside_b);

 private:
  struct Key {
    RunKey a, b;
    int layer, kv_head;
    std::int32_t q, q_b;
    bool operator==(const Key&) const = default;
  };
  ViewServices services_;
  Debounced<Key, OracleAnswers> debounced_;
};

}  // namespace kvscope::views

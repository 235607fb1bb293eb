#pragma once
// The log of one head: what the policy decided, a row a decision, in the policy's own words.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "views/figure/token_facts.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

/// Items: "timeline.contest.<row>", with the text of the row; "timeline.log_note".
class DecisionLogTable {
 public:
  explicit DecisionLogTable(const ViewServices& services);
  /// Reads the run if it changed. Call before n_rows() and draw().
  void update(const ShownRun& shown, const Cursor& at);
  int n_rows() const { return static_cast<int>(rows_.size()); }
  void draw(ViewContext& context, const Cursor& at);

 private:
  struct Key {
    RunKey run;
    int layer, kv_head;
    bool in_answer;  // the words of the log speak of the prompt no more
    bool operator==(const Key&) const = default;
  };
  void draw_row(ViewContext& context, const HeadAtQuery& head, int index, bool brief);
  std::vector<const char*> columns() const;
  const std::vector<float>& needs(const HeadAtQuery& head, const std::vector<const char*>& columns);
  bool has_names(std::size_t column) const;
  struct Layout {
    bool brief;
    std::vector<const char*> titles;
    std::vector<float> widths;
  };
  Layout layout(const HeadAtQuery& head);
  std::int32_t query_of(const HeadAtQuery& head, std::int32_t row) const;
  void follow(const HeadAtQuery& head, float row_height);
  /// Position, evicted token and cells of a row, but for query and oracle.
  struct Row {
    std::int32_t q = 0, token = -1, evicted = -1;
    std::vector<std::string> cells;
  };
  Row row(const HeadAtQuery& head, int index) const;
  Row contest_row(const RunRecord& run, const Contest& contest) const;
  Row least_row(const HeadAtQuery& head, const Contest& contest) const;
  Row pool_row(const HeadAtQuery& head, const Contest& contest) const;
  Row threshold_row(const HeadAtQuery& head, std::int32_t t) const;
  /// Of the narrow table: its one column between query and oracle.
  const char* brief_column() const;
  std::string brief_cell(const RunRecord& run, const Row& row) const;
  std::string hint_of_row(const Row& row) const;

  ViewServices services_;
  Rebuild<Key> rebuild_;
  struct Words;  // the policy's, and its plan
  std::shared_ptr<const Words> words_;
  std::string note_;                // where there is no row
  std::vector<std::int32_t> rows_;  // of contests and least: into the run's contests; of thresholds: tokens
  std::vector<float> texts_;        // widths of the columns' texts, for rows_ and this size of the font
  std::vector<float> needs_;        // those of their titles too
  float need_of_brief_ = 0, needs_font_size_ = 0;
  struct Followed {
    int layer = -1, kv_head = -1;
    std::int32_t q = -1;
    int n_rows = 0;
    bool operator==(const Followed&) const = default;
  };
  Followed followed_;                                 // what was last brought in sight
  std::map<std::int32_t, EvictionVerdict> verdicts_;  // of tokens that were drawn: each costs a look at every head
};

}  // namespace kvscope::views

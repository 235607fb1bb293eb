#pragma once
// Everything about the selected token and head, in words and numbers.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "views/figure/token_facts.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/widgets/chrome.h"
#include "views/widgets/heat_map.h"
#include "views/widgets/inspector_rows.h"
#include "views/widgets/marked_heads.h"
#include "views/widgets/oracle_table.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/run_numbers.h"
#include "views/widgets/why_text.h"

namespace kvscope::views {

class InspectorView final : public View {
 public:
  explicit InspectorView(const ViewServices& services)
      : services_(services),
        heads_(*services.textures),
        oracles_(services),
        run_numbers_(services),
        marked_(services) {}
  const char* kind() const override { return "inspector"; }
  const char* title() const override { return "Inspector"; }
  Place place() const override { return Place::side; }
  void draw(ViewContext& context) override;

 private:
  struct HeadKey {
    RunKey a, b;
    int layer, kv_head;
    std::int32_t q, q_b;
    bool operator==(const HeadKey&) const = default;
  };
  struct TokenKey {
    RunKey run;
    int token;
    std::int32_t q;
    bool dark;
    bool operator==(const TokenKey&) const = default;
  };
  struct OracleKey {
    RunKey run;
    int layer, kv_head, token;
    std::int32_t q;
    bool operator==(const OracleKey&) const = default;
  };
  void draw_token(ViewContext& context, const Cursor& at);
  void draw_token_rows(const ViewContext& context, const HeadAtQuery& head, int token);
  void draw_all_heads(ViewContext& context, const Cursor& at);
  void draw_head_card(const RunRecord& run, const Cursor& at, KvHead head) const;
  void draw_head(const ViewContext& context, const Cursor& at);
  void count_head(const ViewContext& context, const Cursor& at, const ShownRun* b, const Cursor& at_b);
  void draw_policy(const ViewContext& context, const Cursor& at, const ShownRun* b, const Cursor& at_b);
  const std::string& oracle_line(const ShownRun& shown, const HeadAtQuery& head, int token);
  void draw_numbers(const ViewContext& context, const Cursor& at, const ShownRun* b, const OracleAnswers* answers);
  void draw_oracle_rows(const RunRecord& run, const Cursor& at, bool with_b, const OracleAnswers* answers,
                        InspectorRows& rows);
  void draw_judge(const ViewContext& context, const OracleAnswers& answers);
  void draw_marked(const ViewContext& context);
  void section(const std::string& title);

  ViewServices services_;
  WhyText why_;
  HeatMap heads_;        // the selected token's state in every head
  int n_retaining_ = 0;  // heads that see it
  Rebuild<TokenKey> rebuild_heads_;
  Rebuild<HeadKey> rebuild_metrics_;
  Rebuild<RunKey> rebuild_prompt_;
  Rebuild<OracleKey> rebuild_oracle_;  // a verdict on an eviction costs a look at every head
  std::string oracle_line_;
  bool oracle_judges_ = false;
  bool dense_prompt_ = false;
  struct MetricRow {
    std::string title, label;  // "Density", "Density (incl. sinks)"
    std::string a, b;
  };
  std::vector<MetricRow> metrics_;
  OracleCounts counts_, counts_b_;  // at the query, as PairedOracle judges
  bool shared_ = false;             // by one oracle for both
  OracleTable oracles_;
  RunNumbers run_numbers_;
  MarkedHeads marked_;
};

}  // namespace kvscope::views

#include "views/widgets/oracle_table.h"

#include "views/figure/figure_builder.h"
#include "views/widgets/chrome.h"
#include "views/widgets/paired_oracle.h"

namespace kvscope::views {
namespace {

constexpr OracleMass kMasses[] = {OracleMass::mean, OracleMass::sum, OracleMass::rms, OracleMass::max};
constexpr OracleWeight kWeights[] = {OracleWeight::mass, OracleWeight::value, OracleWeight::output};

}  // namespace

OracleAnswers oracle_answers(const RunRecord& run, const Cursor& at, const RunRecord* b, const Cursor& at_b) {
  const auto [layer, kv_head, token, q] = at;
  const PairedOracle judge(run, b);
  OracleAnswers answers;
  answers.mean = mean_up_to(judge.of(run), layer, kv_head, q);
  if (b != nullptr) answers.mean_b = mean_up_to(judge.of(*b), at_b.layer, at_b.kv_head, at_b.q);
  if (judge.common()) answers.common = judge.common()->note(run, *b, q);
  for (const OracleMass mass : kMasses) {
    for (const OracleWeight weight : kWeights) {
      const auto recall = [&](bool pooled) {
        OracleSpec spec = run.oracle;
        spec.mass = mass, spec.weight = weight, spec.pooled = pooled;
        const Oracle oracle(run, spec);
        if (!oracle.is_known() || oracle.n_queries() == 0) return std::nan("");
        return counts_at(oracle, layer, kv_head, q).recall();
      };
      OracleSpec spec = run.oracle;
      spec.mass = mass, spec.weight = weight;
      if (!Oracle(run, spec).is_known()) continue;
      answers.rows.push_back(
          {std::string(to_string(mass)) + " x " + std::string(to_string(weight)), recall(false), recall(true)});
    }
  }
  return answers;
}

std::optional<OracleAnswers> OracleTable::answers(const ShownRun& a, const Cursor& at, const ShownRun* b,
                                                  const Cursor& at_b) {
  return debounced_.of({RunKey(&a), RunKey(b), at.layer, at.kv_head, at.q, at_b.q},
                       [run = a.run, other = b != nullptr ? b->run : nullptr, at, at_b] {
                         return oracle_answers(*run, at, other.get(), at_b);
                       });
}

void OracleTable::draw(const OracleAnswers& answers, bool beside_b) {
  if (answers.rows.empty()) return;
  const Palette& p = services_.theme->palette;
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(p.muted, std::string("Recall at this query for each recorded oracle") + (beside_b ? " (A)" : ""));
  if (!ImGui::BeginTable("oracles", 3, ImGuiTableFlags_RowBg)) return;
  // Set widths: columns sized by their contents have none in the first frame, a letter a line.
  ImGui::TableSetupColumn("oracle", ImGuiTableColumnFlags_WidthStretch, 3);
  for (const char* name : {"per head", "pooled"}) ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthStretch, 2);
  ImGui::TableHeadersRow();
  for (const OracleAnswers::Row& row : answers.rows) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    text_in(p.muted, row.name);
    ImGui::TableNextColumn();
    text_in(p.text, format_number(row.of_head));
    const ImVec2 min = ImGui::GetItemRectMin();
    ImGui::TableNextColumn();
    text_in(p.text, format_number(row.pooled));
    services_.items->add_text("inspector.oracle." + row.name, item_rect(min, ImGui::GetItemRectMax()),
                              format_number(row.of_head) + " | " + format_number(row.pooled));
  }
  ImGui::EndTable();
}

}  // namespace kvscope::views

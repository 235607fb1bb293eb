#include "views/widgets/oracle_table.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "views/figure/figure_builder.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr OracleMass kMasses[] = {OracleMass::mean, OracleMass::sum, OracleMass::rms, OracleMass::max};
constexpr OracleWeight kWeights[] = {OracleWeight::mass, OracleWeight::value, OracleWeight::output};

std::string number(double value) { return std::isnan(value) ? "–" : format_number(value, 3); }

}  // namespace

OracleAnswers oracle_answers(const RunRecord& run, int layer, int kv_head, std::int32_t q) {
  OracleAnswers answers;
  answers.mean = mean_of(std::span<const OracleCounts>());
  if (const Oracle own(run); own.is_known() && own.n_queries() > 0) {
    const std::vector<OracleCounts> curve = own.curve(layer, kv_head);
    const std::size_t n = std::min(curve.size(), static_cast<std::size_t>(q) + 1);
    answers.mean = mean_of(std::span(curve).first(n));
  }
  for (const OracleMass mass : kMasses) {
    for (const OracleWeight weight : kWeights) {
      const auto recall = [&](bool pooled) {
        OracleSpec spec = run.oracle;
        spec.mass = mass, spec.weight = weight, spec.pooled = pooled;
        const Oracle oracle(run, spec);
        if (!oracle.is_known() || oracle.n_queries() == 0) return std::nan("");
        return oracle.counts(layer, kv_head, std::min(q, oracle.n_queries() - 1)).recall();
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

std::optional<OracleAnswers> OracleTable::answers(const ShownRun& shown, const Cursor& at) {
  return aside_.of({RunKey(&shown), at.layer, at.kv_head, at.q},
                   [run = shown.run, at] { return oracle_answers(*run, at.layer, at.kv_head, at.q); });
}

void OracleTable::draw(const OracleAnswers& answers) {
  if (answers.rows.empty()) return;
  const Palette& p = services_.theme->palette;
  const FontScope small(services_.theme->fonts.small);
  text_in(p.muted, "recall at this query under each recorded oracle");
  if (!ImGui::BeginTable("oracles", 3, ImGuiTableFlags_RowBg)) return;
  // Widths of their own: columns sized by their contents have none in the first frame, a letter a line.
  ImGui::TableSetupColumn("oracle", ImGuiTableColumnFlags_WidthStretch, 3);
  for (const char* name : {"of the head", "pooled"})
    ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthStretch, 2);
  ImGui::TableHeadersRow();
  for (const OracleAnswers::Row& row : answers.rows) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    text_in(p.muted, row.name);
    ImGui::TableNextColumn();
    text_in(p.text, number(row.of_head));
    const ImVec2 min = ImGui::GetItemRectMin();
    ImGui::TableNextColumn();
    text_in(p.text, number(row.pooled));
    services_.items->add_text("inspector.oracle." + row.name, item_rect(min, ImGui::GetItemRectMax()),
                              number(row.of_head) + " | " + number(row.pooled));
  }
  ImGui::EndTable();
}

}  // namespace kvscope::views

#include "views/widgets/no_value_note.h"

#include <imgui.h>

#include <algorithm>

#include "engine/core/record/run_end.h"
#include "engine/core/study/measure/output_error.h"
#include "views/figure/caption.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

/// Whether any(evict_at of a head) holds for some head of a layer that is not local by the model's design.
template <typename Any>
bool any_head(const RunRecord& run, const Any& any) {
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      if (!run.is_local_by_model(layer, head) && any(run.evict_at.row(layer, head))) return true;
    }
  }
  return false;
}

bool keeps_any(const RunRecord& run, std::int32_t q, std::int32_t from, std::int32_t to) {
  return any_head(run, [&](const auto& row) {
    const auto end = std::min(to + 1, static_cast<std::int32_t>(row.size()));
    for (std::int32_t t = from; t < end; ++t) {
      if (visible(q, t, row[static_cast<std::size_t>(t)])) return true;
    }
    return false;
  });
}

/// "At query 3, all tokens are sinks or in the window of 16."
std::string all_recent(std::int32_t q, int n_sink, int window) {
  return "At query " + std::to_string(q) + ", all tokens are " + (n_sink > 0 ? "sinks or " : "") + "in the window of " +
         std::to_string(window) + ".";
}

std::string why_no_share(const RunRecord& run, std::int32_t q, int n_sink, int window) {
  if (q - window < n_sink) return all_recent(q, n_sink, window);
  return run.status == RunStatus::running ? "No decision yet on the tokens before the window."
                                          : "No decision was made on the tokens before the window.";
}

std::string why_no_choice(const RunRecord& run, std::int32_t q, int n_sink, int window) {
  if (run.future_mass.empty()) return why_no_recall(run, false);
  const bool goes_on = run.status == RunStatus::running;
  if (!goes_on && !evicts_by(run, run.n_tokens()))
    return "This run evicts nothing, so an oracle has no choice to make.";
  if (q < run.prompt_len && prompt_was_dense(run))
    return "Query " + std::to_string(q) + " is in the dense prompt, where nothing is evicted.";
  if (q - window < n_sink) return all_recent(q, n_sink, window);
  if (!evicts_by(run, q)) return "Nothing was evicted up to query " + std::to_string(q) + ".";
  if (!keeps_any(run, q, n_sink, q - window))
    return "At query " + std::to_string(q) +
           ", the policy keeps only sinks and window, so an oracle has nothing to choose.";
  return {};
}

std::string why_no_read_mass(const RunRecord& run, std::int32_t q) {
  if (run.reads.empty()) return "No head in this run reads pages.";
  if (run.output_error.empty()) return "Not measured in this run.";
  return "No query up to " + std::to_string(q) + " selected pages.";
}

}  // namespace

bool is_decoded_only(Metric metric) {
  return metric == Metric::output_error || metric == Metric::read_mass || metric == Metric::best_read_mass;
}

std::string why_no_value(const RunRecord& run, Metric metric, std::int32_t q) {
  q = std::min(resolve_query(run, q), run.queries() - 1);
  if (run.ids.empty() || run.evict_at.empty() || q < 0) return "No query yet.";
  const RetentionGeometry geometry = run.geometry();
  switch (metric) {
    case Metric::density:
      return why_no_share(run, q, 0, geometry.window);
    case Metric::evict_ratio:
      return why_no_share(run, q, geometry.n_sink, geometry.window);
    case Metric::cache_share:
      return {};
    case Metric::read_share:
      return run.reads.empty() ? "No head in this run reads pages: each query reads every kept token." : "";
    case Metric::read_mass:
    case Metric::best_read_mass:
      return why_no_read_mass(run, q);
    case Metric::output_error: {
      if (run.output_error.empty()) return "Not measured in this run.";
      const std::vector<int> counts = output_error_map(run, q).n_queries;
      return std::ranges::any_of(counts, [](int n) { return n > 0; }) ? "" : output_error_note(run, q);
    }
    default:
      return why_no_choice(run, q, geometry.n_sink, geometry.window);
  }
}

void draw_no_value_note(const ViewServices& services, const char* item, const ItemRect& map, const std::string& text) {
  const FontScope small(services.theme->fonts.small);
  const Palette& p = services.theme->palette;
  const float edge = services.theme->px(2), pad = services.theme->px(4), line = ImGui::GetTextLineHeight();
  const int n = static_cast<int>((map.h - 2 * (edge + pad)) / line);
  if (n < 1 || map.w < 4 * line) return;  // the card under the mouse has it
  const std::string lines = in_lines(text, map.w - 2 * (edge + pad), n);
  const ImVec2 size = ImGui::CalcTextSize(lines.c_str());
  // At the lower end: the head that is selected at first is at the upper one, and its frame is to be seen.
  const ImVec2 b{map.x + edge + size.x + 2 * pad, map.y + map.h - edge};
  const ImVec2 a{map.x + edge, b.y - size.y - 2 * pad};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(a, b, to_imgui(with_alpha(p.panel, 235)), services.theme->px(4));
  list.AddText({a.x + pad, a.y + pad}, to_imgui(p.muted), lines.c_str());
  services.items->add_text(item, item_rect(a, b), text);
}

}  // namespace kvscope::views

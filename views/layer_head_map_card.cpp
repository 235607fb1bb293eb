// LayerHeadMapView: the card of the head under the mouse.

#include <cmath>
#include <string>

#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/layer_head_map_view.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {

/// What the colour shows where each layer is divided by its largest; nothing elsewhere.
std::string LayerHeadMapView::share_of_largest(std::size_t part, KvHead head) const {
  if (!drawn_.by_layer || part >= drawn_values_.size()) return {};
  const HeadMap& shares = drawn_values_[part];
  if (head.layer >= shares.n_layers || head.kv_head >= shares.n_kv_heads) return {};
  const float share = shares.at(head.layer, head.kv_head);
  return std::isnan(share) ? std::string() : ", " + format_number(share, 2) + " of the layer's largest";
}

/// What the map says of a head; empty where it has no such head.
std::string LayerHeadMapView::value_line(const ViewContext& context, KvHead head) const {
  const RunRecord& run = *context.a->run;
  if (counted_.empty() || head.layer >= run.evict_at.n_layers() || head.kv_head >= run.evict_at.n_kv_heads()) return {};
  const auto value = [&](std::size_t part) {
    const auto& parts = counted_.maps().parts;
    // What is drawn may be a frame older than what was counted.
    if (part >= parts.size() || head.layer >= parts[part].map.n_layers || head.kv_head >= parts[part].map.n_kv_heads)
      return std::string("no value");
    const float v = parts[part].map.at(head.layer, head.kv_head);
    return std::isnan(v) ? std::string("no value") : format_number(v, 4);
  };
  std::string line = std::string(metric_info(drawn_.metric).title);
  const RunCounts& counts = counted_.maps().counts;
  const auto i = static_cast<std::size_t>(head.layer * run.evict_at.n_kv_heads() + head.kv_head);
  if (counts.all > 1 && i < counts.of_head.size())
    line += ", " + describe_aggregate_of_head(drawn_.aggregate, counts.of_head[i], counts.all);
  line += (drawn_.compare == MapCompare::difference ? ", B − A " : " ") + value(0);
  if (drawn_.compare != MapCompare::side_by_side) return line + share_of_largest(0, head);
  line += " in A" + share_of_largest(0, head) + (drawn_.by_layer ? "; " : ", ");
  return line + value(1) + " in B" + share_of_largest(1, head);
}

void LayerHeadMapView::draw_hover_card(const ViewContext& context, const RunRecord& run, KvHead head,
                                       std::size_t part) {
  const auto [layer, kv_head] = head;
  const Palette& p = services_.theme->palette;
  const MetricInfo& info = metric_info(context.selection->metric);
  const HoverCard card(services_);
  const float room = services_.theme->px(380);
  ImGui::PushTextWrapPos(room);
  draw_text(services_.theme->fonts.bold, p.text,
            "Layer " + std::to_string(layer) + " · KV head " + std::to_string(kv_head));
  const std::string line = value_line(context, head);
  text_in(p.text, in_lines(line, room - ImGui::GetCursorPosX(), 4));  // ImGui would break a number at its point
  services_.items->add_text("map.hover", last_item(), line);
  if (run.is_local_by_model(layer, kv_head)) {
    const std::string why = "A local layer of the model: it attends to its newest " +
                            std::to_string(run.geometry(layer, kv_head).window) + " tokens under every policy.";
    text_in(p.text, why);
    services_.items->add_text("map.hover_local", last_item(), why);
  } else if (part < why_none_.size() && !why_none_[part].empty()) {
    const bool beside = drawn_.compare == MapCompare::side_by_side;
    const std::string why = (!beside ? "" : part == 0 ? "A: " : "B: ") + why_none_[part];
    text_in(p.text, why);
    services_.items->add_text("map.hover_why", last_item(), why);
  }
  if (info.needs_oracle && run.oracle_horizon < run.n_tokens())
    text_in(p.warn, "Partial: the oracle has not seen every query.");
  const int group = run.model.n_kv_heads > 0 ? run.model.n_heads / run.model.n_kv_heads : 0;
  if (group > 1) {
    text_in(p.muted,
            "query heads " + std::to_string(kv_head * group) + "–" + std::to_string(kv_head * group + group - 1));
  }
  text_in(p.muted, info.definition);
  if (info.needs_oracle && drawn_.compare != MapCompare::none && !counted_.maps().common_oracle.empty())
    text_in(p.muted, "A and B are judged by one " + counted_.maps().common_oracle + ".");
  if (const std::string& own = counted_.maps().own_oracle; !own.empty() && part == 0) {
    text_in(p.muted, own.substr(1));
    services_.items->add_text("map.hover_oracle", last_item(), own.substr(1));
  }
  services_.items->add_text("map.hover_definition", last_item(), std::string(info.definition));
  ImGui::PopTextWrapPos();
}

}  // namespace kvscope::views

#include "views/widgets/inspector_rows.h"

#include <imgui.h>

#include <algorithm>

namespace kvscope::views {
namespace {

constexpr float kNarrowPair = 240;  // design pixels that names and two columns need in the common size

float widest_word(const std::string& text) {
  float width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    width = std::max(width, ImGui::CalcTextSize(text.data() + at, text.data() + end).x);
    at = end + 1;
  }
  return width;
}

}  // namespace

/// Columns sized by their contents would lay a wrapping text out one letter a line, until they have seen it.
InspectorRows::InspectorRows(const ViewServices& services, const char* name, bool with_b) : services_(services) {
  const float room = ImGui::GetContentRegionAvail().x;
  const bool narrow = with_b && room < services_.theme->px(kNarrowPair);
  if (narrow) small_.emplace(services_.theme->fonts.small);
  open_ =
      ImGui::BeginTable(with_b ? (std::string(name) + ".pair").c_str() : name, with_b ? 3 : 2, ImGuiTableFlags_None);
  if (!open_) return;
  // No word of a name is broken, however narrow the inspector is; two columns beside it need what there is.
  const char* word = narrow ? "Observation" : "log-probability";
  const float share = with_b ? 0.3f : 0.4f, least = ImGui::CalcTextSize(word).x + ImGui::GetStyle().CellPadding.x;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, narrow ? least : std::max(least, share * room));
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch, with_b ? 1.5f : 3);
  if (with_b) ImGui::TableSetupColumn("b", ImGuiTableColumnFlags_WidthStretch, 1.5f);
}

InspectorRows::~InspectorRows() {
  if (open_) ImGui::EndTable();
}

void InspectorRows::add(const std::string& name, const std::string& value, const std::optional<std::string>& of_b) {
  add(name, name, value, of_b);
}

void InspectorRows::add(const std::string& name, const std::string& id, const std::string& value,
                        const std::optional<std::string>& of_b) {
  const std::string item = "inspector." + id;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  wrapped_text_in(services_.theme->palette.muted, name);
  services_.items->add_text(item + ".name", last_item(), name);
  add_value(item, value);
  if (of_b) add_value(item + ".b", *of_b);
}

/// In the next column; small where a word would be broken in it.
void InspectorRows::add_value(const std::string& item, const std::string& value) {
  ImGui::TableNextColumn();
  std::optional<FontScope> small;
  if (widest_word(value) > ImGui::GetContentRegionAvail().x) small.emplace(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.text, value);
  services_.items->add_text(item, last_item(), value);
}

}  // namespace kvscope::views

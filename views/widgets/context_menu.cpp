#include "views/widgets/context_menu.h"

#include <string>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/token_facts.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

/// A menu's padding is its own: views have other one.
class Menu {
 public:
  Menu(const ViewServices& services, const char* name) : services_(&services), name_(name) {
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {services.theme->px(10), services.theme->px(8)});
    open_ = ImGui::BeginPopup(name);
    ImGui::PopStyleVar();
  }
  ~Menu() {
    if (open_) ImGui::EndPopup();
  }
  Menu(const Menu&) = delete;
  Menu& operator=(const Menu&) = delete;

  bool open() const { return open_; }
  void title(const std::string& text) const {
    text_in(services_->theme->palette.muted, text);
    services_->items->add_text(name_, last_item(), text);
    ImGui::Separator();
  }
  bool choice(const char* label, const char* item, const char* keys = nullptr, bool enabled = true) const {
    const bool pressed = ImGui::MenuItem(label, keys, false, enabled);
    services_->items->add(std::string(name_) + item, last_item());
    return pressed;
  }

 private:
  const ViewServices* services_;
  const char* name_;
  bool open_ = false;
};

bool is_pinned(const ViewContext& context, const Cursor& at) {
  if (context.pins == nullptr) return false;
  for (const PlacedPin& placed : *context.pins) {
    if (placed.pin.layer == at.layer && placed.pin.kv_head == at.kv_head && placed.pin.token == at.token) return true;
  }
  return false;
}

}  // namespace

void open_token_menu(Selection& selection, int token) {
  selection.token = token;
  ImGui::OpenPopup("token.menu");
}

void draw_token_menu(const ViewServices& services, ViewContext& context) {
  const Menu menu(services, "token.menu");
  if (!menu.open() || !drawable(context.a)) return;
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  if (at.token < 0) return;
  menu.title(identity_line(run, at.layer, at.kv_head, at.token));
  if (menu.choice(is_pinned(context, at) ? "Unpin" : "Pin in this head", ".pin", "P") && context.command)
    context.command("pin.toggle");
  if (menu.choice("Go to its first query", ".go_to")) scrub_to(*context.selection, at.token, run);
  const std::int32_t evicted = run.evict_at.row(at.layer, at.kv_head)[static_cast<std::size_t>(at.token)];
  if (menu.choice("Go to its eviction", ".go_to_eviction", nullptr, evicted >= 0 && evicted < run.queries()))
    scrub_to(*context.selection, evicted, run);
  if (menu.choice("Copy text", ".copy")) ImGui::SetClipboardText(std::string(run.pieces[at.token]).c_str());
  if (menu.choice("Copy why it was kept or evicted", ".copy_why"))
    ImGui::SetClipboardText(explain_token(run, at.layer, at.kv_head, at.token, at.q).c_str());
}

void open_head_menu(Selection& selection, KvHead head) {
  selection.layer = head.layer;
  selection.kv_head = head.kv_head;
  ImGui::OpenPopup("head.menu");
}

void draw_head_menu(const ViewServices& services, ViewContext& context, const std::string& value) {
  const Menu menu(services, "head.menu");
  if (!menu.open() || !drawable(context.a)) return;
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  Selection& selection = *context.selection;
  const KvHead head{at.layer, at.kv_head};
  menu.title("Layer " + std::to_string(at.layer) + " · KV head " + std::to_string(at.kv_head));
  if (menu.choice(is_pinned(context, at) ? "Unpin" : "Pin the selected token here", ".pin", "P", at.token >= 0) &&
      context.command)
    context.command("pin.toggle");
  const bool marked = selection.heads.contains(head);
  if (menu.choice(marked ? "Unmark" : "Mark", ".mark"))
    marked ? selection.heads.remove(head) : selection.heads.add(head);
  if (menu.choice("Mark all heads in this layer", ".mark_layer")) {
    for (int h = 0; h < run.evict_at.n_kv_heads(); ++h) selection.heads.add({at.layer, h});
  }
  if (menu.choice("Clear all marks", ".all", "Esc", !selection.heads.empty())) selection.heads = {};
  if (menu.choice("Copy value", ".copy", nullptr, !value.empty())) ImGui::SetClipboardText(value.c_str());
}

}  // namespace kvscope::views

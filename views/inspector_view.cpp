#include "views/inspector_view.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/retention_metrics.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_strip_figure.h"
#include "views/figure/token_text.h"
#include "views/widgets/pin_list.h"

namespace kvscope::views {

void InspectorView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.inspector", "Nothing selected",
                "What is under the cursor is explained here.", "", "");
    return;
  }
  const Cursor at = context.cursor_in(*context.a->run);
  if (rebuild_prompt_.due(RunKey(context.a))) {
    dense_prompt_ = prompt_was_dense(*context.a->run);
    rebuild_prompt_.done();
  }
  draw_pin_list(services_, context);
  section("Token");
  const auto button = [&](const char* item, const char* label, const char* hint, const char* command, bool first) {
    if (!first) ImGui::SameLine();
    if (ImGui::SmallButton(label) && context.command) context.command(command);
    services_.items->add(item, last_item());
    hint_of(services_, hint);
  };
  button("inspector.pin", "Pin", "Keeps the selected token of this head in sight, or lets it go (P)", "pin.toggle",
         true);
  button("inspector.notes", "Notes", "The pins of this text and what is noted of them and of the run (Shift+P)",
         "notes.show", false);
  if (context.a->preview) preview_badge(services_);
  const ImVec2 min = ImGui::GetCursorScreenPos();
  if (at.token < 0) {
    wrapped_text_in(services_.theme->palette.muted, "Click a token in the strip, or a line in the timeline.");
  } else {
    draw_token(context, at);
  }
  draw_marked(context);
  draw_head(context, at);
  if (context.a->preview) {
    const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x, out = services_.theme->px(5);
    preview_frame(services_, {min.x - out, min.y - out / 2}, {right + out, ImGui::GetCursorScreenPos().y});
  }
}

void InspectorView::section(const std::string& title) {
  draw_text(services_.theme->fonts.bold, services_.theme->palette.text, title);
}

/// Columns sized by their contents would lay a wrapping text out one letter a line, until they have seen it.
bool InspectorView::begin_rows(const char* name) {
  if (!ImGui::BeginTable(name, 2, ImGuiTableFlags_None)) return false;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthStretch, 2);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch, 3);
  return true;
}

void InspectorView::row(const char* name, const std::string& value) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  wrapped_text_in(services_.theme->palette.muted, name);
  ImGui::TableNextColumn();
  wrapped_text_in(services_.theme->palette.text, value);
  services_.items->add_text(std::string("inspector.") + name, last_item(), value);
}

void InspectorView::draw_token(ViewContext& context, const Cursor& at) {
  const RunRecord& run = *context.a->run;
  {
    const FontScope mono(services_.theme->fonts.mono);
    wrapped_text_in(services_.theme->palette.text, "“" + token_label(run.pieces[at.token], 80) + "”");
  }
  draw_all_heads(context,
                 at);  // above the sentence, which is longer in one head than in another: no cell moves by a click
  wrapped_text_in(services_.theme->palette.text, why_.of(*context.a, at));
  services_.items->add_text("inspector.why", last_item(), why_.of(*context.a, at));
  draw_token_rows(HeadAtQuery(run, at.layer, at.kv_head, at.q), at.token);
}

void InspectorView::draw_token_rows(const HeadAtQuery& head, int token) {
  const RunRecord& run = *head.run;
  const std::string so_far = run.oracle_horizon < run.n_tokens() ? " so far" : "";
  const auto number = [](float v, const char* none) { return std::isnan(v) ? std::string(none) : format_number(v, 4); };
  if (!begin_rows("token")) return;
  row("position", std::to_string(token) + (token < run.prompt_len ? ", prompt" : ", answer"));
  row("id", std::to_string(run.ids[token]));
  if (static_cast<std::size_t>(token) < run.logprobs.size()) {
    // By the query before it: that of the first token of the answer is the prompt's last.
    const bool dense = token > 0 && token <= run.prompt_len && dense_prompt_;
    row("log-probability",
        number(run.logprobs[token], "none: the first token") + (dense ? ", dense: no policy had acted" : ""));
  }
  const TokenState state = head.state(token);
  row("state", std::string(state_name(state)) + ": " + std::string(state_definition(state)));
  row("lifetime", life_line(run, head.layer, head.kv_head, token));
  row("score", score_text(run, head.layer, head.kv_head, token));
  if (head.reads().selects()) {
    row("read by this query", (!head.reads().tells_tokens()   ? "not known: slots were used again; "
                               : state == TokenState::unread  ? "no; "
                               : state == TokenState::evicted ? "no, it has left; "
                                                              : "yes; ") +
                                  std::to_string(head.reads().n_read()) + " of " +
                                  std::to_string(head.reads().n_kept()) + " kept tokens are");
  }
  const float mass = mass_at(run, head.layer, head.kv_head, token);
  row("future mass", number(mass, "unknown") + (std::isnan(mass) ? "" : so_far));
  const Verdict verdict = head.verdict(token);
  row("oracle", verdict == Verdict::none ? "no choice to judge" : std::string(verdict_name(verdict)) + so_far);
  ImGui::EndTable();
}

/// What became of the selected token in the head under the mouse.
void InspectorView::draw_head_card(const RunRecord& run, const Cursor& at, KvHead head) const {
  const std::string text = "Layer " + std::to_string(head.layer) + " · KV head " + std::to_string(head.kv_head) + ": " +
                           std::string(state_name(HeadAtQuery(run, head.layer, head.kv_head, at.q).state(at.token)));
  ImGui::BeginTooltip();
  draw_text(services_.theme->fonts.bold, services_.theme->palette.text, text);
  text_in(services_.theme->palette.text, life_line(run, head.layer, head.kv_head, at.token));
  ImGui::EndTooltip();
  services_.items->add_text("inspector.head_card", last_item(), text);
}

/// A small map of every head: where this token still is. Click to go to a head.
void InspectorView::draw_all_heads(ViewContext& context, const Cursor& at) {
  const RunRecord& run = *context.a->run;
  const Theme& theme = *services_.theme;
  const int n_layers = run.evict_at.n_layers(), n_heads = run.evict_at.n_kv_heads();
  if (rebuild_heads_.due({RunKey(context.a), at.token, at.q, theme.dark})) {
    Image image{{}, n_heads, n_layers, {}};
    for (int l = 0; l < n_layers; ++l) {
      for (int h = 0; h < n_heads; ++h)
        image.pixels.push_back(state_colour(HeadAtQuery(run, l, h, at.q).state(at.token), theme.dark));
    }
    n_retaining_ = 0;
    for (int l = 0; l < n_layers && at.token <= at.q; ++l) n_retaining_ += kept_heads(run, l, at.token, at.q);
    heads_.set(image);
    rebuild_heads_.done();
  }
  const std::string retained = at.token > at.q ? "not read yet"
                                               : "kept in " + std::to_string(n_retaining_) + " of " +
                                                     std::to_string(n_layers * n_heads) + " heads";
  text_in(theme.palette.text, retained);
  services_.items->add_text("inspector.retained", last_item(), retained);
  wrapped_text_in(theme.palette.muted, "every layer (down) and KV head (across); a click goes there");
  const float cell = std::clamp(theme.px(150) / static_cast<float>(n_layers), theme.px(3), theme.px(14));
  const float wide = std::clamp(theme.px(220) / static_cast<float>(n_heads), cell, theme.px(28));
  const ImVec2 a = ImGui::GetCursorScreenPos(),
               size{wide * static_cast<float>(n_heads), cell * static_cast<float>(n_layers)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  heads_.draw(list, a, {a.x + size.x, a.y + size.y});
  list.AddRect(a, {a.x + size.x, a.y + size.y}, to_imgui(theme.palette.border));
  const ImVec2 min{a.x + wide * static_cast<float>(at.kv_head), a.y + cell * static_cast<float>(at.layer)};
  list.AddRect(min, {min.x + wide, min.y + cell}, to_imgui(theme.palette.text), 0, 0, theme.px(1.5f));
  const bool clicked = ImGui::InvisibleButton("inspector.heads", size);
  services_.items->add("inspector.heads", last_item());
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const KvHead head{std::clamp(static_cast<int>((mouse.y - a.y) / cell), 0, n_layers - 1),
                    std::clamp(static_cast<int>((mouse.x - a.x) / wide), 0, n_heads - 1)};
  if (clicked) context.selection->layer = head.layer, context.selection->kv_head = head.kv_head;
  if (ImGui::IsItemHovered()) draw_head_card(run, at, head);
  ImGui::Dummy({1, theme.px(4)});
}

/// At q at once; what needs all queries up to q when it is known.
void InspectorView::draw_oracle_rows(const ViewContext& context, const Cursor& at, const OracleAnswers* answers) {
  const auto number = [](double value) { return std::isnan(value) ? std::string("–") : format_number(value, 3); };
  const RunRecord& run = *context.a->run;
  if (at.q < run.prompt_len && dense_prompt_)
    row("oracle at q", "– dense prefill, compressed at " + std::to_string(run.prompt_len));
  row("recall at q", number(counts_.recall()));
  row("chance", number(counts_.chance()));
  row("k / eligible", counts_.eligible == 0
                          ? std::string("–")  // nothing to choose from, or no oracle yet
                          : std::to_string(counts_.capacity) + " / " + std::to_string(counts_.eligible));
  row("mass kept", number(counts_.mass_kept()));
  row("mass recall", number(counts_.mass_recall()));
  const auto of_mean = [&](double value) { return answers == nullptr ? std::string("...") : number(value); };
  const OracleMean mean = answers == nullptr ? OracleMean{} : answers->mean;
  row("mean recall",
      of_mean(mean.recall) + (answers != nullptr && mean.n > 0 ? " over " + std::to_string(mean.n) + " queries" : ""));
  row("mean chance", of_mean(mean.chance));
  row("recall above chance", of_mean(mean.above_chance()));
}

/// Of the heads that were marked on the map.
void InspectorView::draw_marked(const ViewContext& context) {
  const HeadSet heads = context.marked_heads();
  if (heads.empty()) return;
  section(std::to_string(heads.size()) + " marked heads, mean");
  const auto rows = marked_.rows(context);
  if (!rows) return text_in(services_.theme->palette.muted, "Counting ...");
  if (!begin_rows("marked")) return;
  for (const auto& [title, value] : *rows) row(("marked " + title).c_str(), value);
  ImGui::EndTable();
}

void InspectorView::draw_head(const ViewContext& context, const Cursor& at) {
  const RunRecord& run = *context.a->run;
  if (rebuild_metrics_.due({RunKey(context.a), at.layer, at.kv_head, at.q})) {
    metrics_.clear();
    for (const MetricInfo& info : metric_list()) {
      if (info.needs_oracle) continue;
      const float v = head_value(run, info.metric, at.layer, at.kv_head, at.q);
      metrics_.emplace_back(info.title, std::isnan(v) ? "–" : format_number(v, 3));
    }
    const Oracle oracle(run);
    counts_ = oracle.n_queries() > 0 ? oracle.counts(at.layer, at.kv_head, std::min(at.q, oracle.n_queries() - 1))
                                     : OracleCounts{};
    rebuild_metrics_.done();
  }
  section("Layer " + std::to_string(at.layer) + " · KV head " + std::to_string(at.kv_head));
  const std::optional<OracleAnswers> answers = oracles_.answers(*context.a, at);
  if (begin_rows("head")) {
    row("policy", run.policy_at(at.q).brief());
    if (!run.changes.empty()) row("changes", policy_history(run));
    row("query", std::to_string(at.q) + " of " + std::to_string(run.n_tokens() - 1));
    for (const auto& [title, value] : metrics_) row(std::string(title).c_str(), value);
    draw_oracle_rows(context, at, answers ? &*answers : nullptr);
    ImGui::EndTable();
  }
  if (answers) oracles_.draw(*answers);
}

}  // namespace kvscope::views

#include "views/inspector_view.h"

#include <algorithm>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/policy_words.h"
#include "views/figure/token_strip_figure.h"
#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/paired_oracle.h"
#include "views/widgets/pin_list.h"

namespace kvscope::views {
namespace {

/// B where its heads are A's: else a head of it is not the same one.
const ShownRun* shown_beside(const ViewContext& context) {
  return drawable(context.b) && same_shape(*context.a->run, *context.b->run) ? context.b : nullptr;
}

/// In both columns where there are two, each by the name of its run.
std::string of_run(const ShownRun& run, const std::string& text) { return run.label + ": " + text; }

}  // namespace

void InspectorView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.inspector", "Nothing selected",
                "Details of the selected token and head appear here.", "", "");
    return;
  }
  const Cursor at = context.cursor_in(*context.a->run);
  if (rebuild_prompt_.due(RunKey(context.a))) {
    dense_prompt_ = prompt_was_dense(*context.a->run);
    rebuild_prompt_.done();
  }
  draw_pin_list(services_, context);
  section(shown_beside(context) != nullptr ? "Token, in " + context.a->label : "Token");
  const auto button = [&](const char* item, const char* label, const char* hint, const char* command, bool first) {
    if (!first) ImGui::SameLine();
    if (ImGui::SmallButton(label) && context.command) context.command(command);
    services_.items->add(item, last_item());
    hint_of(services_, hint);
  };
  button("inspector.pin", "Pin", "Pin or unpin the selected token in this head (P)", "pin.toggle", true);
  button("inspector.notes", "Notes", "Open the notes on this run and its pins (Shift+P)", "notes.show", false);
  if (context.a->preview) preview_badge(services_);
  const ImVec2 min = ImGui::GetCursorScreenPos();
  if (at.token < 0) {
    wrapped_text_in(
        services_.theme->palette.muted,
        "Click a token in the strip or a line in the timeline. Alt+. and Alt+, go to the next and previous token.");
  } else {
    draw_token(context, at);
  }
  draw_marked(context);
  draw_head(context, at);
  if (context.a->preview) {
    const float right = right_edge_on_screen(), out = services_.theme->px(5);
    preview_frame(services_, {min.x - out, min.y - out / 2}, {right + out, ImGui::GetCursorScreenPos().y});
  }
}

void InspectorView::section(const std::string& title) {
  const FontScope bold(services_.theme->fonts.bold);
  wrapped_text_in(services_.theme->palette.text, title);  // a run's name may be in it
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
  draw_token_rows(context, HeadAtQuery(run, at.layer, at.kv_head, at.q), at.token);
}

void InspectorView::draw_token_rows(const ViewContext& context, const HeadAtQuery& head, int token) {
  const RunRecord& run = *head.run;
  const std::string partial = run.oracle_horizon < run.n_tokens() ? " (partial)" : "";
  const auto number = [](float v, const char* none) { return std::isnan(v) ? std::string(none) : format_number(v, 4); };
  InspectorRows rows(services_, "token");
  if (!rows) return;
  rows.add("position", std::to_string(token) + (token < run.prompt_len ? ", prompt" : ", answer"));
  rows.add("id", std::to_string(run.ids[token]));
  if (static_cast<std::size_t>(token) < run.logprobs.size()) {
    // By the query before it: that of the first token of the answer is the prompt's last.
    const bool dense = token > 0 && token <= run.prompt_len && dense_prompt_;
    rows.add("log-probability",
             number(run.logprobs[token], "none: the first token") + (dense ? ", dense: no policy yet" : ""));
  }
  const TokenState state = head.state(token);
  rows.add("state", std::string(state_name(state)) + ": " + std::string(state_definition(state)));
  rows.add("lifetime", life_line(run, head.layer, head.kv_head, token));
  // Later B has another token there.
  if (const ShownRun* b = shown_beside(context); b != nullptr && token < common_prefix(run, *b->run))
    rows.add(("in " + b->label).c_str(), life_line(*b->run, head.layer, head.kv_head, token));
  rows.add("score", score_text(run, head.layer, head.kv_head, token));
  if (head.reads().selects()) {
    rows.add("read by this query", (!head.reads().tells_tokens()   ? "unknown: slots were reused; "
                                    : state == TokenState::unread  ? "no; "
                                    : state == TokenState::evicted ? "no, evicted; "
                                                                   : "yes; ") +
                                       std::to_string(head.reads().n_read()) + " of " +
                                       std::to_string(head.reads().n_kept()) + " kept tokens read");
  }
  const float mass = mass_at(run, head.layer, head.kv_head, token);
  rows.add("future mass", number(mass, "unknown") + (std::isnan(mass) ? "" : partial));
  rows.add("oracle", oracle_line(*context.a, head, token) + (oracle_judges_ ? partial : ""));
}

/// At the query, and of an evicted token at its eviction too: two questions, which may have two answers.
const std::string& InspectorView::oracle_line(const ShownRun& shown, const HeadAtQuery& head, int token) {
  if (!rebuild_oracle_.due({RunKey(&shown), head.layer, head.kv_head, token, head.q})) return oracle_line_;
  const Verdict verdict = head.verdict(token);
  const std::string at_query = " at query " + std::to_string(head.q);
  oracle_line_ =
      verdict == Verdict::none ? "no choice needed" + at_query : std::string(verdict_name(verdict)) + at_query;
  const std::int32_t evict_at = lifetime_of(*head.run, head.layer, head.kv_head, token);
  VerdictOfEviction of_eviction;
  if (evict_at <= head.q) of_eviction = eviction_verdict(*head.run, head.layer, head.kv_head, token);
  if (of_eviction.verdict != EvictionVerdict::unknown) {
    oracle_line_ +=
        "; at its eviction, query " + std::to_string(evict_at) + ", " +
        (of_eviction.by_quarter ? "an oracle that keeps 25 % of the run's tokens" : "the oracle") +
        (of_eviction.verdict == EvictionVerdict::wrong ? " would have kept it" : " would have evicted it too");
  }
  oracle_judges_ = verdict != Verdict::none || of_eviction.verdict != EvictionVerdict::unknown;
  rebuild_oracle_.done();
  return oracle_line_;
}

/// The selected token's state in the head under the mouse.
void InspectorView::draw_head_card(const RunRecord& run, const Cursor& at, KvHead head) const {
  const std::string text = "Layer " + std::to_string(head.layer) + " · KV head " + std::to_string(head.kv_head) + ": " +
                           std::string(state_name(HeadAtQuery(run, head.layer, head.kv_head, at.q).state(at.token)));
  const HoverCard card(services_);
  draw_text(services_.theme->fonts.bold, services_.theme->palette.text, text);
  text_in(services_.theme->palette.text, life_line(run, head.layer, head.kv_head, at.token));
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
  wrapped_text_in(theme.palette.muted, "layers down, KV heads across; click a cell to select its head");
  const float cell = std::clamp(theme.px(150) / static_cast<float>(n_layers), theme.px(3), theme.px(14));
  const float wide = std::clamp(theme.px(220) / static_cast<float>(n_heads), cell, theme.px(28));
  const ImVec2 a = ImGui::GetCursorScreenPos(),
               size{wide * static_cast<float>(n_heads), cell * static_cast<float>(n_layers)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  heads_.draw(list, a, {a.x + size.x, a.y + size.y});
  list.AddRect(a, {a.x + size.x, a.y + size.y}, to_imgui(theme.palette.border));
  const ImVec2 min{a.x + wide * static_cast<float>(at.kv_head), a.y + cell * static_cast<float>(at.layer)};
  list.AddRect(min, {min.x + wide, min.y + cell}, to_imgui(theme.palette.text), 0, theme.px(1.5f));
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
void InspectorView::draw_oracle_rows(const RunRecord& run, const Cursor& at, bool with_b, const OracleAnswers* answers,
                                     InspectorRows& rows) {
  const auto number = [](double value) { return format_number(value); };
  // Beside B there is little room for names: whose oracle it is, and the rest where the mouse stays.
  const OracleOf whose = shared_ ? OracleOf::shared : OracleOf::own;
  const auto both = [&](const std::string& name, const auto& text, const auto& a, const auto& b,
                        const std::string& oracle = "") {
    const std::string brief = oracle.substr(0, with_b ? oracle.find(',') : oracle.size());
    rows.add(name + (oracle.empty() ? "" : " (" + brief + ")"), name, text(a),
             with_b ? std::optional<std::string>(text(b)) : std::nullopt);
    if (!oracle.empty())
      hint_of(services_, name + " (" + oracle +
                             ") of this head. Recall: the share of the oracle's k tokens that the policy "
                             "also keeps. k excludes sinks and window." +
                             (shared_ ? " One oracle judges A and B." : ""));
  };
  const auto label = [&](const OracleMean& a, const OracleMean& b) {
    return with_b ? oracle_label(whose, a, b) : oracle_label(whose, a);
  };
  const auto at_q = [&](const char* name, const auto& value, const std::string& oracle = "") {
    both(
        name, [&](const OracleCounts& counts) { return number(value(counts)); }, counts_, counts_b_, oracle);
  };
  // Beside a run that chose within the prompt both are judged there.
  if (at.q < run.prompt_len && dense_prompt_ && std::isnan(counts_.recall()))
    rows.add("oracle at q", "none: dense prompt until query " + std::to_string(run.prompt_len));
  at_q(
      "recall at q", [](const OracleCounts& counts) { return counts.recall(); },
      label(mean_of(std::span(&counts_, 1)), mean_of(std::span(&counts_b_, 1))));
  at_q("chance", [](const OracleCounts& counts) { return counts.chance(); });
  both(
      "k / eligible",
      [](const OracleCounts& counts) {
        if (counts.eligible == 0) return std::string("–");  // nothing to choose from, or no oracle yet
        return std::to_string(counts.capacity) + " / " + std::to_string(counts.eligible);
      },
      counts_, counts_b_);
  at_q("mass kept", [](const OracleCounts& counts) { return counts.mass_kept(); });
  at_q("mass recall", [](const OracleCounts& counts) { return counts.mass_recall(); });
  const OracleMean none, &a = answers != nullptr ? answers->mean : none,
                         &b = answers != nullptr ? answers->mean_b : none;
  const auto of_mean = [&](const char* name, const auto& value, const std::string& oracle = "") {
    both(
        name, [&](const OracleMean& mean) { return answers == nullptr ? std::string("...") : value(mean); }, a, b,
        oracle);
  };
  of_mean(
      "mean recall",
      [&](const OracleMean& mean) {
        return number(mean.recall) +
               (mean.n > 0 ? " over " + std::to_string(mean.n) + (mean.n == 1 ? " query" : " queries") : "");
      },
      label(a, b));
  of_mean("mean chance", [&](const OracleMean& mean) { return number(mean.chance); });
  of_mean("recall above chance", [&](const OracleMean& mean) { return number(mean.above_chance()); });
}

/// Of the heads that were marked on the map, beside all, of each run that is shown.
void InspectorView::draw_marked(const ViewContext& context) {
  const HeadSet heads = context.marked_heads();
  if (heads.empty()) return;
  section(std::to_string(heads.size()) + (heads.size() == 1 ? " marked head" : " marked heads, mean"));
  const ShownRun* b = shown_beside(context);
  const auto means = marked_.rows(context, b, b != nullptr ? context.cursor_in(*b->run).q : 0);
  if (!means) return text_in(services_.theme->palette.muted, "Computing ...");
  InspectorRows rows(services_, "marked", true);
  if (!rows) return;
  const auto of_run = [&](const std::string& id, const std::string& name, const std::vector<MarkedHeads::Row>& of) {
    {
      const FontScope bold(services_.theme->fonts.bold);
      rows.add(name.c_str(), id + ".of", "marked", "all heads");
    }
    for (const MarkedHeads::Row& one : of) rows.add(one.label, id + " " + one.metric, one.marked, one.all);
  };
  of_run("marked", b != nullptr ? context.a->label : "mean over", means->a);
  if (b != nullptr) of_run("marked_b", b->label, means->b);
}

void InspectorView::count_head(const ViewContext& context, const Cursor& at, const ShownRun* b, const Cursor& at_b) {
  if (!rebuild_metrics_.due({RunKey(context.a), RunKey(b), at.layer, at.kv_head, at.q, at_b.q})) return;
  const RunRecord& run = *context.a->run;
  metrics_.clear();
  for (const MetricInfo& info : metric_list()) {
    if (info.needs_oracle) continue;
    const auto value = [&](const RunRecord& of, const Cursor& where) {
      return format_number(head_value(of, info.metric, where.layer, where.kv_head, where.q));
    };
    metrics_.push_back({std::string(info.title), info.title_with_base(), value(run, at),
                        b != nullptr ? value(*b->run, at_b) : std::string()});
  }
  const PairedOracle judge(run, b != nullptr ? b->run.get() : nullptr);
  shared_ = judge.common() && !judge.common()->is_own();
  counts_ = counts_at(judge.of(run), at.layer, at.kv_head, at.q);
  if (b != nullptr) counts_b_ = counts_at(judge.of(*b->run), at_b.layer, at_b.kv_head, at_b.q);
  rebuild_metrics_.done();
}

/// In words, a line a parameter, of both runs where there are two; the text that a command line takes is the hint.
void InspectorView::draw_policy(const ViewContext& context, const Cursor& at, const ShownRun* b, const Cursor& at_b) {
  const RunRecord& run = *context.a->run;
  const PolicySpec &policy = run.policy_at(at.q), &other = b != nullptr ? b->run->policy_at(at_b.q) : policy;
  const auto of_b = [&](std::string text) {
    return b != nullptr ? std::optional<std::string>(std::move(text)) : std::nullopt;
  };
  if (b != nullptr) {  // separate lines: a column of a narrow inspector would break "StreamingLLM"
    const auto line = [&](const char* item, const ShownRun& shown, const PolicySpec& of) {
      const std::string text = of_run(shown, std::string(policy_of(of).info.title));
      wrapped_text_in(services_.theme->palette.text, text);
      services_.items->add_text(item, last_item(), text);
      hint_of(services_, of_run(*context.a, policy.to_string()) + "\n" + of_run(*b, other.to_string()));
    };
    line("inspector.policy", *context.a, policy);
    line("inspector.policy.b", *b, other);
  }
  InspectorRows rows(services_, "policy", b != nullptr);
  if (!rows) return;
  if (b == nullptr) {
    rows.add("policy", std::string(policy_of(policy).info.title));
    hint_of(services_, policy.to_string());
    if (!run.recorder.empty()) rows.add("recorded by", run.recorder);
  }
  const std::vector<ParameterLine> lines = parameter_lines(policy), lines_b = parameter_lines(other);
  const auto value_in = [](const std::vector<ParameterLine>& of, const std::string& name) {
    const auto line = std::ranges::find(of, name, &ParameterLine::name);
    return line == of.end() ? std::string("–") : line->value;
  };
  const auto parameter = [&](const ParameterLine& line) {
    rows.add(line.title.c_str(), "policy." + line.name, value_in(lines, line.name), of_b(value_in(lines_b, line.name)));
  };
  for (const ParameterLine& line : lines) parameter(line);
  for (const ParameterLine& line : lines_b)  // what A's has not
    if (std::ranges::find(lines, line.name, &ParameterLine::name) == lines.end()) parameter(line);
  const auto history = [](const RunRecord& of) { return of.changes.empty() ? std::string("–") : policy_history(of); };
  if (!run.changes.empty() || (b != nullptr && !b->run->changes.empty()))
    rows.add("changes", history(run), b != nullptr ? of_b(history(*b->run)) : std::nullopt);
}

void InspectorView::draw_numbers(const ViewContext& context, const Cursor& at, const ShownRun* b,
                                 const OracleAnswers* answers) {
  InspectorRows rows(services_, "head", b != nullptr);
  if (!rows) return;
  const RunRecord& run = *context.a->run;
  const auto query = [](const RunRecord& of, std::int32_t q) {
    return std::to_string(q) + " of " + std::to_string(of.n_tokens() - 1);
  };
  const auto of_b = [&](std::string text) {
    return b != nullptr ? std::optional<std::string>(std::move(text)) : std::nullopt;
  };
  if (b != nullptr) {
    const FontScope bold(services_.theme->fonts.bold);
    rows.add("of", context.a->label, b->label);
  }
  rows.add("query", query(run, at.q), b != nullptr ? of_b(query(*b->run, context.cursor_in(*b->run).q)) : std::nullopt);
  for (const MetricRow& metric : metrics_) rows.add(metric.label, metric.title, metric.a, of_b(metric.b));
  draw_oracle_rows(run, at, b != nullptr, answers, rows);
}

/// Two numbers beside each other are no comparison before one knows what each is held against.
void InspectorView::draw_judge(const ViewContext& context, const OracleAnswers& answers) {
  const bool none = context.a->run->future_mass.empty() && context.b->run->future_mass.empty();
  if (none) return;
  std::string text = answers.common.empty() ? "A and B have different text, so each is judged by its own oracle."
                                            : "A and B are judged by one " + answers.common + " (mean over heads).";
  if (!answers.common.empty() && (counts_.mass_recall() > 1 || counts_b_.mass_recall() > 1))
    text += " A head that keeps more tokens than this oracle can have a mass recall above 1.";
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.muted, text);
  services_.items->add_text("inspector.judge", last_item(), text);
}

void InspectorView::draw_head(const ViewContext& context, const Cursor& at) {
  const ShownRun* b = shown_beside(context);
  const Cursor at_b = b != nullptr ? context.cursor_in(*b->run) : Cursor();
  count_head(context, at, b, at_b);
  section("Layer " + std::to_string(at.layer) + " · KV head " + std::to_string(at.kv_head));
  draw_policy(context, at, b, at_b);
  const std::optional<OracleAnswers> answers = oracles_.answers(*context.a, at, b, at_b);
  draw_numbers(context, at, b, answers ? &*answers : nullptr);
  if (answers && b != nullptr) draw_judge(context, *answers);
  run_numbers_.draw(*context.a, b);
  if (answers) oracles_.draw(*answers, b != nullptr);
}

}  // namespace kvscope::views

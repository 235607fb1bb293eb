#include "views/widgets/decision_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr const char *kWrong = "keeps", *kRight = "agrees";  // the oracle, on what the policy evicted

std::string token_name(const RunRecord& run, std::int32_t t) {
  return t < 0 || t >= run.n_tokens() ? "–" : std::to_string(t) + " \"" + token_label(run.pieces[t], 16) + "\"";
}

/// Tokens of the head that have left the window and were held against the threshold: not those of a dense prefill.
std::vector<std::int32_t> judged_tokens(const RunRecord& run, const RetentionGeometry& geometry) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t t = geometry.n_sink; t < run.queries() - geometry.window; ++t) tokens.push_back(t);
  return tokens;
}

/// What a head evicted without a row in the log, as where a dense prompt is cut at its end; empty if nothing.
std::string note_of_unlisted(const RunRecord& run, int layer, int kv_head) {
  std::int32_t n = 0, first = kUndecided, last = 0;
  for (const std::int32_t at : run.evict_at.row(layer, kv_head)) {
    if (at >= kUndecided) continue;
    ++n, first = std::min(first, at), last = std::max(last, at);
  }
  if (n == 0) return {};
  const std::string left = counted(n, "token") + " evicted ";
  if (first < last)
    return left + "at queries " + std::to_string(first) + " to " + std::to_string(last) + ": no decision was recorded.";
  const bool cut = first == run.prompt_len && prompt_was_dense(run);
  return left + "at query " + std::to_string(first) +
         (cut ? ", when the dense prompt was cut to the budget. Such evictions have no row."
              : ": no decision was recorded.");
}

}  // namespace

struct DecisionLogTable::Words {
  DecisionLog log;
  RetentionPlan plan;
};

DecisionLogTable::DecisionLogTable(const ViewServices& services)
    : services_(services), words_(std::make_shared<const Words>()) {}

void DecisionLogTable::update(const ShownRun& shown, const Cursor& at) {
  const RunRecord& run = *shown.run;
  const bool of_contests =
      words_->log.rows != DecisionLog::Rows::thresholds && words_->log.rows != DecisionLog::Rows::none;
  const std::size_t n = of_contests ? run.contests.size() : run.ids.size();
  const bool outdated = !rows_.empty() && static_cast<std::size_t>(rows_.back()) >= n;
  const bool in_answer = at.q >= run.prompt_len;
  if (!rebuild_.due({RunKey(&shown), at.layer, at.kv_head, in_answer}, outdated)) return;
  const RetentionGeometry geometry = run.geometry(at.layer, at.kv_head);
  const Policy& policy = policy_of(run.policy);
  const RetentionPlan plan = run.plan(at.layer, at.kv_head);
  const bool local = run.is_local(at.layer, at.kv_head);
  RetentionPlan at_query = plan;  // what holds for the prompt does not hold after it
  at_query.dense_prefill = plan.dense_prefill && !in_answer;
  const DecisionLog log =
      run.is_local_by_model(at.layer, at.kv_head)
          ? DecisionLog{.note = "This layer of the model attends only to its newest " +
                                std::to_string(geometry.window) + " tokens. No policy decides here."}
          : policy.log({run.policy, geometry, at_query, local, at.layer, run.n_tokens()});
  words_ = std::make_shared<const Words>(Words{log, plan});
  rows_.clear(), verdicts_.clear(), needs_.clear();
  if (words_->log.rows == DecisionLog::Rows::thresholds) {
    rows_ = judged_tokens(run, geometry);
  } else if (words_->log.rows != DecisionLog::Rows::none) {
    for (std::size_t i = 0; i < run.contests.size(); ++i) {
      if (run.contests[i].layer == at.layer && run.contests[i].kv_head == at.kv_head)
        rows_.push_back(static_cast<std::int32_t>(i));
    }
  }
  note_ = words_->log.note;
  if (rows_.empty() && words_->log.rows != DecisionLog::Rows::none) {
    if (std::string lost = note_of_unlisted(run, at.layer, at.kv_head); !lost.empty()) note_ = std::move(lost);
  }
  rebuild_.done();
}

std::vector<const char*> DecisionLogTable::columns() const {
  switch (words_->log.rows) {
    case DecisionLog::Rows::least:
      return {"query", "entered", "evicted", words_->log.measure.c_str(), "next lowest", "oracle"};
    case DecisionLog::Rows::thresholds:
      return {"query", "token", "decision", "oracle"};
    case DecisionLog::Rows::pool:
      return {"query", "evicted", "score", "lowest kept", "oracle"};
    case DecisionLog::Rows::contests:
    case DecisionLog::Rows::none:
      break;
  }
  return {"query", "newcomer", "boundary", "evicted", "margin", "oracle"};
}

/// What the columns need, from rows all over the log: widths that followed the rows in sight would jump.
const std::vector<float>& DecisionLogTable::needs(const HeadAtQuery& head, const std::vector<const char*>& columns) {
  if (!needs_.empty() && needs_font_size_ == ImGui::GetFontSize()) return needs_;
  needs_font_size_ = ImGui::GetFontSize();
  const auto width = [](const std::string& text) { return ImGui::CalcTextSize(text.c_str()).x; };
  texts_.assign(columns.size(), 0);
  texts_.back() = std::max(width(kWrong), width(kRight));
  need_of_brief_ = width(brief_column());
  const auto need = [&](float& widest, const std::string& text) { widest = std::max(widest, width(text)); };
  constexpr int kMeasured = 100;
  for (int i = 0; i < n_rows(); i += std::max(1, n_rows() / kMeasured)) {
    const Row measured = row(head, i);
    need(texts_[0], std::to_string(measured.q));
    for (std::size_t k = 0; k < measured.cells.size(); ++k) need(texts_[k + 1], measured.cells[k]);
    need(need_of_brief_, brief_cell(*head.run, measured));
  }
  needs_ = texts_;
  for (std::size_t k = 0; k < columns.size(); ++k) need(needs_[k], columns[k]);
  return needs_;
}

/// A token's name may be cut, other cells may not.
bool DecisionLogTable::has_names(std::size_t column) const {
  const bool two = words_->log.rows == DecisionLog::Rows::contests || words_->log.rows == DecisionLog::Rows::least;
  return column == 1 || (two && column == 2);
}

const char* DecisionLogTable::brief_column() const {
  return words_->log.rows == DecisionLog::Rows::thresholds ? "decision" : "evicted";
}

std::string DecisionLogTable::brief_cell(const RunRecord& run, const Row& row) const {
  if (words_->log.rows == DecisionLog::Rows::thresholds)
    return (row.evicted < 0 ? "keep " : "evict ") + token_name(run, row.token);
  return row.evicted < 0 ? "none" : token_name(run, row.evicted);
}

/// Where numbers would be cut (a title may be) only query, token and oracle are shown: the hint of a row has the others.
DecisionLogTable::Layout DecisionLogTable::layout(const HeadAtQuery& head) {
  Layout all{false, columns(), {}};
  const ImGuiStyle& style = ImGui::GetStyle();
  const auto room = [&](std::size_t n) {
    return ImGui::GetContentRegionAvail().x - 2 * style.CellPadding.x * static_cast<float>(n) - style.ScrollbarSize;
  };
  const std::vector<float>& need = needs(head, all.titles);
  all.widths = share_room(need, room(need.size()));
  for (std::size_t i = 0; i < need.size(); ++i) {
    if (has_names(i) || all.widths[i] + 1 > texts_[i]) continue;  // but for rounding
    return {true,
            {all.titles.front(), brief_column(), all.titles.back()},
            share_room({need.front(), need_of_brief_, need.back()}, room(3))};
  }
  return all;
}

void DecisionLogTable::draw(ViewContext& context, const Cursor& at) {
  const FontScope small(services_.theme->fonts.small);
  if (rows_.empty()) {
    wrapped_text_in(services_.theme->palette.muted, note_);
    services_.items->add_text("timeline.log_note", last_item(), note_);
    return;
  }
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV |
                                ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  const HeadAtQuery head(*context.a->run, at.layer, at.kv_head, at.q);
  const auto [brief, titles, widths] = layout(head);
  if (!ImGui::BeginTable(brief ? "contests.brief" : "contests", static_cast<int>(titles.size()), flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t i = 0; i < titles.size(); ++i)
    ImGui::TableSetupColumn(titles[i], ImGuiTableColumnFlags_WidthStretch, widths[i]);
  ImGui::TableHeadersRow();
  ImGuiListClipper clipper;
  clipper.Begin(n_rows());
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) draw_row(context, head, i, brief);
  }
  follow(head, clipper.ItemsHeight);
  ImGui::EndTable();
}

std::int32_t DecisionLogTable::query_of(const HeadAtQuery& head, std::int32_t row) const {
  if (words_->log.rows == DecisionLog::Rows::thresholds) return row + head.geometry.window;
  return head.run->contests[static_cast<std::size_t>(row)].q;
}

/// Scrolls to the first decision at q or after it when q or the head changes. What was scrolled by hand stays.
void DecisionLogTable::follow(const HeadAtQuery& head, float row_height) {
  const Followed now{head.layer, head.kv_head, head.q, n_rows()};
  if (std::exchange(followed_, now) == now || row_height <= 0) return;
  const auto at = std::ranges::partition_point(rows_, [&](std::int32_t row) { return query_of(head, row) < head.q; });
  const float top = row_height * static_cast<float>(at - rows_.begin());
  const float room = ImGui::GetWindowHeight() - row_height;  // but for the titles, which stay
  if (top < ImGui::GetScrollY() || top + row_height > ImGui::GetScrollY() + room)
    ImGui::SetScrollY(std::max(0.f, top - row_height * std::floor(room / row_height / 2)));  // by whole rows
}

DecisionLogTable::Row DecisionLogTable::contest_row(const RunRecord& run, const Contest& c) const {
  const auto contender = [&](std::int32_t t, float score) {
    return format_number(score, 4) + "  " + token_name(run, t);  // where it is cut, of the name
  };
  return {c.q,
          c.evicted >= 0 ? c.evicted : c.newcomer,
          c.evicted,
          {contender(c.newcomer, c.newcomer_effective), contender(c.boundary, c.boundary_effective),
           c.evicted < 0             ? "none"
           : c.evicted == c.newcomer ? "newcomer"
                                     : "boundary",
           c.boundary < 0 ? "–" : format_number(std::abs(c.newcomer_effective - c.boundary_effective), 3)}};
}

DecisionLogTable::Row DecisionLogTable::least_row(const HeadAtQuery& head, const Contest& c) const {
  // The query that was over the budget is the one before: beside sinks and the newest, all that the head held could go.
  const int n = head.geometry.budget() + 1 - head.geometry.n_sink - words_->plan.protect;
  return {
      c.q,
      c.evicted,
      c.evicted,
      {token_name(*head.run, c.newcomer), token_name(*head.run, c.evicted) + " (lowest of " + std::to_string(n) + ")",
       format_number(c.boundary_effective, 4), format_number(c.newcomer_effective, 4)}};
}

DecisionLogTable::Row DecisionLogTable::pool_row(const HeadAtQuery& head, const Contest& c) const {
  const auto left = std::ranges::count(head.run->evict_at.row(head.layer, head.kv_head), c.q);
  const std::string others = left > 1 ? " and " + std::to_string(left - 1) + " with lower scores" : "";
  return {c.q,
          c.evicted,
          c.evicted,
          {token_name(*head.run, c.evicted) + others, format_number(c.boundary_effective, 4),
           format_number(c.newcomer_effective, 4)}};
}

DecisionLogTable::Row DecisionLogTable::threshold_row(const HeadAtQuery& head, std::int32_t t) const {
  const RunRecord& run = *head.run;
  const std::int32_t q = t + head.geometry.window;
  const PolicySpec& policy = run.policy_at(q);
  const bool changed = !run.changes.empty() && policy.has("threshold") && !policy.is_replaced("threshold");
  const float threshold = changed ? static_cast<float>(policy.value("threshold")) : words_->plan.threshold;
  const bool dropped = lifetime_of(run, head.layer, head.kv_head, t) == q;
  const std::string text =
      comparison_text(words_->log, score_at(run, head.layer, head.kv_head, t), threshold, words_->plan.strict);
  return {q, t, dropped ? t : -1, {token_name(run, t), text + (dropped ? ": evict" : ": keep")}};
}

DecisionLogTable::Row DecisionLogTable::row(const HeadAtQuery& head, int index) const {
  const std::int32_t i = rows_[static_cast<std::size_t>(index)];
  if (words_->log.rows == DecisionLog::Rows::thresholds) return threshold_row(head, i);
  const Contest& contest = head.run->contests[static_cast<std::size_t>(i)];
  if (words_->log.rows == DecisionLog::Rows::pool) return pool_row(head, contest);
  return words_->log.rows == DecisionLog::Rows::least ? least_row(head, contest) : contest_row(*head.run, contest);
}

/// The columns that a narrow table leaves out.
std::string DecisionLogTable::hint_of_row(const Row& row) const {
  const std::vector<const char*> titles = columns();
  std::string hint;
  for (std::size_t i = 0; i < row.cells.size(); ++i)
    hint += (i > 0 ? "\n" : "") + std::string(titles[i + 1]) + ": " + row.cells[i];
  return hint;
}

void DecisionLogTable::draw_row(ViewContext& context, const HeadAtQuery& head, int index, bool brief) {
  const Row r = row(head, index);
  const Palette& p = services_.theme->palette;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::PushID(index);
  if (ImGui::Selectable(std::to_string(r.q).c_str(), r.q == head.q, ImGuiSelectableFlags_SpanAllColumns)) {
    scrub_to(*context.selection, r.q, *head.run);
    context.selection->token = r.token;
  }
  const ItemRect rect = last_item();
  if (brief) hint_of(services_, hint_of_row(r));
  ImGui::PopID();
  std::string all = std::to_string(r.q);
  const auto cell = [&](Colour colour, const std::string& text) {
    ImGui::TableNextColumn();
    brief ? text_in(colour, cut_to(text, ImGui::GetContentRegionAvail().x)) : cut_text_in(services_, colour, text);
    all += " | " + text;
  };
  if (brief) {
    cell(p.text, brief_cell(*head.run, r));
  } else {
    for (const std::string& text : r.cells) cell(p.text, text);
  }
  auto found = verdicts_.find(r.evicted);
  if (found == verdicts_.end()) {
    const EvictionVerdict verdict = r.evicted < 0
                                        ? EvictionVerdict::unknown
                                        : eviction_verdict(*head.run, head.layer, head.kv_head, r.evicted).verdict;
    found = verdicts_.emplace(r.evicted, verdict).first;
  }
  const bool wrong = found->second == EvictionVerdict::wrong, right = found->second == EvictionVerdict::right;
  cell(wrong ? p.bad : right ? p.good : p.muted, wrong ? kWrong : right ? kRight : "–");
  // The clipper measures by the first row, which may be far above; and one can be half under the titles.
  const float top = ImGui::GetWindowPos().y + rect.h, bottom = ImGui::GetWindowPos().y + ImGui::GetWindowHeight();
  if (rect.y + 1 >= top && rect.y + rect.h <= bottom + 1)
    services_.items->add_text("timeline.contest." + std::to_string(index), rect, all);
}

}  // namespace kvscope::views

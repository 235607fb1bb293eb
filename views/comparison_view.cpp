#include "views/comparison_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/core/support/minus.h"
#include "views/figure/policy_words.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr char kNoValue[] = "–";

bool is_budget(std::string_view name) { return name == "budget" || name == "keep" || name == "compression"; }

/// "50 % (116 tokens)" where the other one is of another kind, so that they can be compared.
std::string budget_text(const RunRecord& run, const std::string& text, bool in_tokens) {
  if (!in_tokens || !run.policy.budget || run.policy.budget->kind == BudgetSpec::Kind::tokens) return text;
  return text + " (" + std::to_string(run.geometry().budget()) + " tokens)";
}

/// What was asked of both, parameters with the titles and values that they have in the panel. However a budget was
/// written, there is one row for it.
std::vector<ComparisonRow> asked_in_words(const std::vector<ComparisonRow>& rows, const RunRecord& a,
                                          const RunRecord& b) {
  const std::vector<ParameterLine> lines[] = {parameter_lines(a.policy), parameter_lines(b.policy)};
  const auto line = [&](int of, std::string_view name) {
    const auto found = std::ranges::find(lines[of], name, &ParameterLine::name);
    return found == lines[of].end() ? nullptr : &*found;
  };
  const auto& budget_a = a.policy.budget;
  const auto& budget_b = b.policy.budget;
  const bool kinds_differ = budget_a && budget_b && budget_a->kind != budget_b->kind;
  std::vector<ComparisonRow> shown;
  bool has_budget = false;
  for (ComparisonRow row : rows) {
    const bool budget = is_budget(row.name);
    if (budget && std::exchange(has_budget, true)) continue;
    const std::string_view name = budget ? "budget" : std::string_view(row.name);
    const ParameterLine *of_a = line(0, name), *of_b = line(1, name);
    if (of_a == nullptr && of_b == nullptr) {
      shown.push_back(std::move(row));
      continue;
    }
    ComparisonRow in_words = row;
    in_words.name = (of_a != nullptr ? of_a : of_b)->title;
    in_words.a = of_a == nullptr ? kNoValue : budget ? budget_text(a, of_a->value, kinds_differ) : of_a->value;
    in_words.b = of_b == nullptr ? kNoValue : budget ? budget_text(b, of_b->value, kinds_differ) : of_b->value;
    // What differs in digits that the panel leaves out has all of them.
    if (row.differs() && !in_words.differs()) in_words.a = row.a, in_words.b = row.b;
    shown.push_back(std::move(in_words));
  }
  return shown;
}

std::vector<ComparisonRow> differing(const std::vector<ComparisonRow>& rows) {
  std::vector<ComparisonRow> some;
  for (const ComparisonRow& row : rows) {
    if (row.differs()) some.push_back(row);
  }
  return some;
}

/// In as many lines as it needs, broken between words alone; a word that is wider than the column is cut.
void words_in(const ViewServices& services, Colour colour, const std::string& text, std::string_view hint = {}) {
  const float room = ImGui::GetContentRegionAvail().x;
  const auto fits = [&](const std::string& line) { return ImGui::CalcTextSize(line.c_str()).x <= room; };
  std::string lines, line;
  bool cut = false;
  const auto end_line = [&] {
    cut = cut || !fits(line);
    lines += (lines.empty() ? "" : "\n") + cut_to(line, room);
  };
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && !fits(longer)) {
      end_line();
      line = word;
    } else {
      line = longer;
    }
  }
  end_line();
  text_in(colour, lines);
  hint_of(services, cut ? text + (hint.empty() ? "" : ": ") + std::string(hint) : std::string(hint));
}

/// What the columns need: numbers stay in one piece, words are wrapped.
std::vector<float> needs_of(const std::array<const char*, 4>& titles, const std::vector<ComparisonRow>& rows,
                            bool brief) {
  // The table gives a column whole pixels.
  const auto width = [](const std::string& text) { return std::ceil(ImGui::CalcTextSize(text.c_str()).x) + 1; };
  const auto widest_word = [&](const std::string& text) {
    float widest = 0;
    std::istringstream words(text);
    for (std::string word; words >> word;) widest = std::max(widest, width(word));
    return widest;
  };
  std::vector<float> needs;
  for (const char* title : titles) needs.push_back(width(title));
  const auto need = [&](std::size_t column, float least) { needs[column] = std::max(needs[column], least); };
  for (const ComparisonRow& row : rows) {
    const bool number = !row.definition.empty();
    // In two lines or so: in more of them the names would take the height that the rows need.
    need(0, brief ? std::max(widest_word(row.shown_name()), 0.6f * width(row.shown_name())) : width(row.shown_name()));
    need(1, number ? width(with_minus(row.a)) : widest_word(row.a));
    need(2, number ? width(with_minus(row.b)) : widest_word(row.b));
    need(3, number ? width(with_minus(row.difference)) : widest_word(with_minus(row.difference)));
  }
  return needs;
}

/// Of the columns in `room` pixels, `padding` at both sides of each: name, A, B and B - A, or the last three where four have
/// too little; the name has a line to itself then. No number is left out: the difference is what one compares for.
std::vector<float> widths_of(const std::array<const char*, 4>& titles, const std::vector<ComparisonRow>& rows,
                             float room, float padding) {
  const float four = std::max(4.f, room - 8 * padding), three = std::max(3.f, room - 6 * padding);
  for (const bool brief : {false, true}) {
    const std::vector<float> needs = needs_of(titles, rows, brief);
    if (std::accumulate(needs.begin(), needs.end(), 0.f) <= four) return share_room(needs, four);
  }
  const std::vector<float> needs = needs_of(titles, rows, true);
  return share_room({needs.begin() + 1, needs.end()}, three);
}

}  // namespace

void ComparisonView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.comparison", "Nothing to compare yet",
                "Run a prompt, then compare it here with a second run or with a preview of another policy.", "Run",
                "run.start");
    return;
  }
  const Palette& p = services_.theme->palette;
  const auto say = [&](const std::string& text) {
    wrapped_text_in(p.muted, text);
    services_.items->add_text("comparison.note", last_item(), text);
  };
  if (context.a->preview || (drawable(context.b) && context.b->preview)) preview_badge(services_);
  if (!drawable(context.b)) {
    say("No B yet. Change the policy for a preview, decode again, or press B next to a run.");
    if (ImGui::Button("Decode again") && context.command) context.command("run.decode_again");
    services_.items->add("empty.comparison_b", last_item());
    return hint_of(services_, "Decode A's tokens again under the panel's policy, as B.");
  }
  const ModelInfo &a = context.a->run->model, &b = context.b->run->model;
  if (!same_shape(*context.a->run, *context.b->run) || a.vocab_size != b.vocab_size)
    return say("A and B use different models, so their heads cannot be compared.");
  update(context);
  if (!table_) return say("Computing ...");
  say(table_->tokens + (context.b->preview ? "; B is a preview, not measured" : ""));
  ImGui::BeginChild("rows");
  {
    const FontScope small(services_.theme->fonts.small);
    draw_rows("result", table_->came_of);
    draw_rows("settings", differing(table_->asked));
    say_alike();
  }
  ImGui::EndChild();
}

void ComparisonView::update(const ViewContext& context) {
  const Key key{RunKey(context.a), RunKey(context.b), context.q()};
  auto table = debounced_.of(key, [a = context.a->run, b = context.b->run, q = key.q, preview = context.b->preview] {
    ComparisonTable counted = comparison_table(*a, *b, q, preview);
    counted.asked = asked_in_words(counted.asked, *a, *b);
    return counted;
  });
  if (table) table_ = std::move(table);
}

/// The settings that A and B share, in one line.
void ComparisonView::say_alike() {
  std::string alike;
  for (const ComparisonRow& row : table_->asked) {
    if (!row.differs()) alike += (alike.empty() ? "Same: " : ", ") + row.name + " " + row.a;
  }
  if (alike.empty()) return;
  wrapped_text_in(services_.theme->palette.muted, alike);
  services_.items->add_text("comparison.alike", last_item(), alike);
}

void ComparisonView::draw_rows(const char* heading, const std::vector<ComparisonRow>& rows) {
  if (rows.empty()) return;
  const std::array<const char*, 4> titles = {heading, "A", "B", "B − A"};
  const float padding = services_.theme->px(3), room = ImGui::GetContentRegionAvail().x;
  // Set widths: columns sized by their contents would wrap text one letter per line.
  const std::vector<float> widths = widths_of(titles, rows, room, padding);
  const std::size_t n = widths.size();
  const auto begin_table = [&](const std::string& id) {
    ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {padding, ImGui::GetStyle().CellPadding.y});
    const bool open = ImGui::BeginTable(id.c_str(), static_cast<int>(n), ImGuiTableFlags_RowBg);
    ImGui::PopStyleVar();
    for (std::size_t i = 0; open && i < n; ++i)
      ImGui::TableSetupColumn(titles[i + titles.size() - n], ImGuiTableColumnFlags_WidthStretch, widths[i]);
    return open;
  };
  if (!begin_table(heading)) return;
  ImGui::TableHeadersRow();
  const bool with_names = n == titles.size();
  for (const ComparisonRow& row : rows) {
    if (!with_names) break;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    draw_name(row);
    tell(row, last_item());
    draw_cells(row);
  }
  ImGui::EndTable();
  for (const ComparisonRow& row : rows) {
    if (with_names) break;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    draw_name(row);
    if (!begin_table(heading + ("." + row.name))) continue;
    ImGui::TableNextRow();
    draw_cells(row);
    ImGui::EndTable();
    tell(row, item_rect(at, {at.x + room, ImGui::GetCursorScreenPos().y}));
  }
}

void ComparisonView::tell(const ComparisonRow& row, const ItemRect& where) const {
  const std::string difference = with_minus(row.difference);  // on a terminal a hyphen does
  services_.items->add_text(
      "comparison." + row.name, where,
      with_minus(row.a) + " | " + with_minus(row.b) + (difference.empty() ? "" : " | " + difference));
}

void ComparisonView::draw_name(const ComparisonRow& row) const {
  words_in(services_, services_.theme->palette.muted, row.shown_name(), row.definition);
  services_.items->add_text("comparison." + row.name + ".label", last_item(), row.shown_name());
}

/// What is alike is muted: the eye goes to what differs.
void ComparisonView::draw_cells(const ComparisonRow& row) const {
  const Palette& p = services_.theme->palette;
  const auto cell = [&](const std::string& text, Colour colour) {
    ImGui::TableNextColumn();
    const Colour shown = row.differs() ? colour : p.muted;
    row.definition.empty() ? words_in(services_, shown, text) : cut_text_in(services_, shown, text);
  };
  cell(with_minus(row.a), p.text);
  cell(with_minus(row.b), p.text);
  cell(with_minus(row.difference), p.accent);
}

}  // namespace kvscope::views

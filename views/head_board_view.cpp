#include "views/head_board_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kLifetimesAtOnce = 1 << 20;      // lifetimes
constexpr float kBriefWidth = 560, kBriefHeight = 300;  // design pixels
constexpr float kLeastWidth = 170, kLeastHeight = 110;  // of all that is drawn, design pixels
constexpr float kTinyHeight = 190;                      // below the buttons, design pixels
constexpr float kLeastMapShare = 0.55f;                 // share of the room that sentences leave to the map

struct StrategyButton {
  HeadStrategy strategy;
  const char *item, *label, *hint;
};
constexpr StrategyButton kStrategies[] = {
    {HeadStrategy::a, "board.a", "A", "Make every fourth layer global, from layer 0, and the last layer"},
    {HeadStrategy::b, "board.b", "B", "Make every fourth layer global, from layer 3, and the last layer"},
    {HeadStrategy::c, "board.c", "C", "Make a random share of the heads global, drawn with the seed"},
    {HeadStrategy::d, "board.d", "D",
     "Make the densest heads global: the share that keeps most outside the window in this run"},
};

/// Context length for the memory estimate: the model's own until the user enters another.
int context_of(const HeadBoard& board, const ModelInfo& model) {
  return board.context > 0 ? board.context : std::max(1, model.max_positions);
}

/// Whether the run was decoded with exactly these local heads.
bool is_hybrid_of(const ShownRun* shown, const std::vector<std::uint8_t>& local) {
  return drawable(shown) && !shown->preview && shown->run->local_heads() == local;
}

/// Global becomes local, and back.
void flip(HeadSet& global, KvHead head) { global.contains(head) ? global.remove(head) : global.add(head); }

}  // namespace

void HeadBoardView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.head_board", "No heads yet",
                "Run a gated policy or open a trace, then make its heads global or local here.", "Run", "run.start");
    return;
  }
  // Its buttons alone would fill it, and nothing could be seen of what they do.
  if (const ImVec2 room = ImGui::GetContentRegionAvail();
      room.x < services_.theme->px(kLeastWidth) || room.y < services_.theme->px(kLeastHeight))
    return too_little_room(services_, "heads");
  if (!count_entries(context)) return text_in(services_.theme->palette.muted, "Computing ...");
  {
    const FontScope small(services_.theme->fonts.small);
    draw_strategies(context);
    draw_numbers(context);
    draw_sentences(context);
  }
  draw_board(context);
}

/// The sentences never take the map's room. In a small region they are brief, with the whole text as the tooltip, and scroll
/// if they still do not fit; in a very small one they are two lines, whose tooltip has all of them.
void HeadBoardView::draw_sentences(ViewContext& context) {
  const Theme& theme = *services_.theme;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  brief_ = room.x < theme.px(kBriefWidth) || room.y < theme.px(kBriefHeight);
  tiny_ = room.y < theme.px(kTinyHeight);
  const auto say_all = [&] {
    if (!refused_.empty())
      say("board.refused", theme.palette.warn, refused_, refused_.substr(0, refused_.find_first_of(",;")));
    draw_facts(context);
    draw_predicted(context);
    draw_measured(context);
  };
  if (tiny_) {
    said_.clear();
    say_all();
    return draw_in_two_lines();
  }
  const float likely = sentences_ > 0 ? sentences_ : 4 * ImGui::GetTextLineHeightWithSpacing();
  const float height = std::min(likely, std::max(theme.px(32), room.y * (1 - kLeastMapShare)));
  ImGui::BeginChild("sentences", {0, height});
  say_all();
  // Known when they were drawn: the next frame has the room that they take. The map must not move under a press that changes
  // what is said, or the click is a drag; nor is room given back that the next click may need again.
  const float taken = ImGui::GetCursorPosY();
  ImGui::EndChild();
  if (ImGui::IsMouseDown(0) || ImGui::IsMouseReleased(0)) return;
  const bool same_room = std::exchange(sentences_room_, room.x) == room.x;
  const float needed = same_room ? std::max(sentences_, taken) : taken;
  if (std::abs(needed - std::exchange(sentences_, needed)) > 0.5f) want_frame();
}

void HeadBoardView::say(const char* item, Colour colour, const std::string& text, const std::string& brief) {
  if (tiny_) return said_.push_back({item, colour, text, brief.empty() ? text : brief});
  const bool shortened = brief_ && !brief.empty() && brief != text;
  wrapped_text_in(colour, shortened ? brief : text);
  services_.items->add_text(item, last_item(), text);
  if (shortened) hint_of(services_, text);
}

/// The first that is said, which is a refusal or the choice, and the last, which is what it costs.
void HeadBoardView::draw_in_two_lines() {
  std::string all;
  for (const Said& said : said_) all += (all.empty() ? "" : "\n") + said.text;
  const auto line = [&](const Said& said) {
    text_in(said.colour, cut_to(said.brief, ImGui::GetContentRegionAvail().x));
    services_.items->add_text(said.item, last_item(), said.text);
    hint_of(services_, all);
  };
  line(said_.front());
  for (std::size_t i = 1; i + 1 < said_.size(); ++i)
    services_.items->add_text(said_[i].item, last_item(), said_[i].text);
  if (said_.size() > 1) line(said_.back());
}

bool HeadBoardView::count_entries(const ViewContext& context) {
  const auto take = [this](Entries entries) {
    entries_ = std::move(entries);
    ++n_entries_;
    recount_.done();
  };
  if (auto entries = counting_.take()) take(std::move(*entries));
  const auto& run = context.a->run;
  // Facts of another run do not hold for this one; those of a growing run are kept until they are counted again.
  const auto is_known = [&] { return entries_ && (entries_->run == run || run->status == RunStatus::running); };
  if (!counting_.is_busy() && recount_.due(RunKey(context.a), !is_known())) {
    const auto make = [run]() -> Entries { return {long_range_entries({run.get()}), run}; };
    const std::int64_t lifetimes =
        static_cast<std::int64_t>(run->n_tokens()) * run->evict_at.n_layers() * run->evict_at.n_kv_heads();
    lifetimes <= kLifetimesAtOnce ? take(make()) : counting_.post(make);
  }
  return is_known() && same_shape(*entries_->run, *run);
}

void HeadBoardView::fill(HeadBoard& board, HeadStrategy strategy) {
  refused_.clear();
  try {
    fill_board(board, *entries_->run, entries_->of_heads, strategy);
  } catch (const NoRanking& tie) {
    refused_ = tie.sentence();
  } catch (const Error& error) {
    refused_ = error.what();
  }
}

void HeadBoardView::draw_strategies(ViewContext& context) {
  HeadBoard& board = context.selection->board;
  const auto now = board_strategy(board);
  bool first = true;
  for (const StrategyButton& button : kStrategies) {
    if (line_button(services_, button.item, button.label, button.hint, now == button.strategy,
                    std::exchange(first, false)))
      fill(board, button.strategy);
  }
  const RunRecord& run = *context.a->run;
  const auto by_hand = [&](bool all) {
    const std::vector<std::uint8_t> local(entries_->of_heads.size(), all ? 0 : 1);
    board.global = global_heads_of(local, run.evict_at.n_kv_heads());
    board.rule.clear();
    refused_.clear();
  };
  if (line_button(services_, "board.all", "All", "Make every head global (a dense cache)", false)) by_hand(true);
  if (line_button(services_, "board.none", "None", "Make every head local", false)) by_hand(false);
  const HeadSet marked = context.marked_heads();
  if (!marked.empty() && line_button(services_, "board.marked", "Marked",
                                     "Make the heads marked on the map global, all others local", false)) {
    board.global = marked;
    board.rule.clear();
    refused_.clear();
  }
  if (line_button(services_, "board.measure", "Measure",
                  "Save these heads, load them and replay A's tokens under hybrid:heads=d, as B", false) &&
      context.command)
    context.command("board.measure");
  if (line_button(services_, "board.export", "Export heads",
                  "Export a DuoAttention folder, as kvscope heads --export duo:FOLDER does", false) &&
      context.command)
    context.command("board.export");
}

/// Share and seed of the strategies that have one, and the context length for the memory estimate.
void HeadBoardView::draw_numbers(ViewContext& context) {
  HeadBoard& board = context.selection->board;
  const Theme& theme = *services_.theme;
  const auto strategy = board_strategy(board);
  float share = static_cast<float>(100 * board.share);
  const std::string share_words = "share " + number_text(100 * board.share, 3) + " %";
  const auto width = [](const char* text) { return ImGui::CalcTextSize(text).x; };
  // The slider gives way first, then the word: a second line would be the map's.
  const float room = ImGui::GetContentRegionAvail().x, rest = theme.px(5 + 12 + 72) + width(share_words.c_str());
  const bool whole = theme.px(110 + 5) + rest + width("tokens") <= room;
  ImGui::SetNextItemWidth(whole ? theme.px(110) : std::clamp(room - rest, theme.px(50), theme.px(110)));
  const bool moved = ImGui::SliderFloat("##share", &share, 0, 100, "", ImGuiSliderFlags_AlwaysClamp);
  services_.items->add_text("board.share", last_item(), number_text(board.share, 3));
  if (moved) board.share = std::clamp(std::round(static_cast<double>(share)) / 100, 0.0, 1.0);
  const auto on_line = [&](float space, float needed) {  // where there is room for it
    ImGui::SameLine(0, theme.px(space));
    if (ImGui::GetContentRegionAvail().x < needed - 1) ImGui::NewLine();
  };
  const auto name = [&](const char* text) {
    on_line(5, width(text));
    text_in(theme.palette.muted, text);
  };
  name(share_words.c_str());
  on_line(12, theme.px(72));
  ImGui::SetNextItemWidth(theme.px(72));
  int tokens = context_of(board, context.a->run->model);
  if (ImGui::InputInt("##context", &tokens, 0, 0)) board.context = std::clamp(tokens, 1, 1 << 24);
  services_.items->add_text("board.context", last_item(), std::to_string(tokens));
  whole ? name("tokens") : hint_of(services_, "Context length for the memory estimate (tokens)");
  bool drawn_anew = false;
  if (strategy == HeadStrategy::c) {
    on_line(12, theme.px(80 + 5) + width("seed"));
    ImGui::SetNextItemWidth(theme.px(80));
    drawn_anew = ImGui::InputInt("##seed", &board.seed, 1, 1);
    board.seed = std::clamp(board.seed, 0, 1 << 30);
    services_.items->add_text("board.seed", last_item(), std::to_string(board.seed));
    name("seed");
  }
  const bool has_share = strategy == HeadStrategy::c || strategy == HeadStrategy::d;
  if ((moved && has_share) || drawn_anew) fill(board, *strategy);
}

void HeadBoardView::draw_facts(const ViewContext& context) {
  HeadBoard& board = context.selection->board;
  if (refact_.due({n_entries_, board.global, board.rule, board.share, board.seed})) {
    selection_ = board_selection(*entries_->run, entries_->of_heads, board);
    refact_.done();
  }
  const Palette& p = services_.theme->palette;
  const RunRecord& run = *context.a->run;
  say("board.facts", p.text, describe(selection_), describe(selection_, true));
  if (!selection_.tied.empty())
    say("board.tied", p.warn,
        std::to_string(selection_.tied.size()) + " heads tie at the cutoff; " +
            std::to_string(selection_.n_tied_chosen) +
            (selection_.n_tied_chosen == 1 ? " of them is global because it comes first"
                                           : " of them are global because they come first"));
  const LocalSizes sizes = board_sizes(run);
  const HybridBytes bytes =
      hybrid_bytes(run.model, local_heads_of(board.global, run.model.n_layers, run.model.n_kv_heads), sizes,
                   context_of(board, run.model));
  std::string text = "At " + std::to_string(context_of(board, run.model)) + " tokens: ";
  text += bytes.dense > 0
              ? bytes_text(bytes.bytes) + " of " + bytes_text(bytes.dense) + ", " +
                    fixed_text(100 * static_cast<double>(bytes.bytes) / static_cast<double>(bytes.dense), 1) +
                    " % of a dense cache"
              : "memory unknown, because the run does not record head dimension and dtype";
  const std::string local = "; a local head keeps " + std::to_string(sizes.n_sink) +
                            (sizes.n_sink == 1 ? " sink" : " sinks") + " and the " + std::to_string(sizes.window) +
                            " newest tokens";
  say("board.bytes", p.text, text + local, text);
}

/// The likelihood of these heads as the shown study predicts it.
void HeadBoardView::draw_predicted(const ViewContext& context) {
  const OpenStudy* study = context.study();
  if (study == nullptr) return;
  const ModelInfo& model = context.a->run->model;
  const HeadSet& global = context.selection->board.global;
  const PredictionKey key{study->table, global, model.weights_hash};
  if (predicted_ != key) {
    GlobalHeads heads = local_heads_of(global, model.n_layers, model.n_kv_heads);
    for (std::uint8_t& head : heads) head = head != 0 ? 0 : 1;
    prediction_ = predict_hybrid(*study->table, model, heads);
    predicted_ = key;
  }
  if (!prediction_) return;
  const HybridPrediction& p = *prediction_;
  const std::string difference = "NLL, predicted: " + std::string(p.nll_difference < 0 ? "−" : "+") +
                                 fixed_text(std::abs(p.nll_difference), 4) + " nats per token against dense";
  std::string text = difference + ", from " + fixed_text(100 * p.share, 1) + " % of the " +
                     (p.signal.empty() ? "signal" : p.signal) + ", interpolated between the " +
                     std::to_string(p.n_points) + " choices measured in " + study->name + " (leave-one-out error " +
                     fixed_text(p.error, 4) + ", root mean square)";
  const LocalSizes sizes = board_sizes(*context.a->run);
  if (p.window > 0 && (p.window != sizes.window || p.n_sink != sizes.n_sink))
    text += "; local heads in that study have " + std::to_string(p.n_sink) + " sinks and a window of " +
            std::to_string(p.window);
  say("board.predicted", services_.theme->palette.preview, text, difference + ", error " + fixed_text(p.error, 4));
}

/// The likelihood under exactly these heads, where a run has it.
void HeadBoardView::draw_measured(const ViewContext& context) {
  const Palette& p = services_.theme->palette;
  const RunRecord& run = *context.a->run;
  const auto local = local_heads_of(context.selection->board.global, run.model.n_layers, run.model.n_kv_heads);
  if (is_hybrid_of(context.b, local)) {
    const PairedNll nll = paired_nll(run, *context.b->run);
    const bool running = context.b->run->status == RunStatus::running;
    std::string text = "NLL, measured: ", brief;
    if (nll.n == 0) {
      text = running ? "NLL: measuring ..." : "NLL, measured: none";
    } else {
      brief = text + fixed_text(nll.b, 4) + " in B, " + fixed_text(nll.a, 4) + " in A, " +
              (nll.b >= nll.a ? "+" : "−") + fixed_text(std::abs(nll.b - nll.a), 4);
      text = brief + " nats per token over the " + std::to_string(nll.n) + " tokens that both have";
    }
    if (running && nll.n > 0) text += " (running)", brief += " (running)";
    say("board.nll", p.good, text, nll.n == 0 ? text : brief);
  } else {
    say("board.nll", p.muted, "NLL: not measured for these heads.");
  }
}

LayerHeadMapOptions HeadBoardView::options_of(const ViewContext& context) const {
  LayerHeadMapOptions options;
  options.metric = Metric::density;  // what the choice uses, whatever the map shows
  options.colormap = services_.theme->maps;
  options.q = context.q();
  options.preview = context.a->preview;
  options.marginal = false;
  options.board = true;
  options.heads = context.selection->board.global.within(context.a->run->evict_at.n_layers(),
                                                         context.a->run->evict_at.n_kv_heads());
  return options;
}

std::optional<ViewFigure> HeadBoardView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  return ViewFigure{options_of(context), {context.a->run}};
}

void HeadBoardView::draw_board(ViewContext& context) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const Theme& theme = *services_.theme;
  if (room.x < theme.px(90) || room.y < theme.px(70)) return;
  const LayerHeadMapOptions options = options_of(context);
  counted_.update({*context.a}, options);
  if (counted_.empty()) return text_in(theme.palette.muted, "Computing ...");
  const LayerHeadMapOptions drawn = counted_.with_look(options);
  if (rebuild_.due({counted_.n(), drawn, room.x, room.y, theme.scale, theme.dark})) {
    drawing_.set(
        layer_head_map_figure(counted_.maps(), counted_.runs(), drawn, theme.figure_style(room.x, room.y)).figure);
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, theme);
  // Pressed without the mouse, whose clicks are the brush's: Enter or space means the selected head.
  const bool by_keys = ImGui::InvisibleButton("board", room) && !ImGui::IsMouseReleased(ImGuiMouseButton_Left);
  frame_focused_item();
  if (options.preview) services_.items->add("preview.badge", last_item());
  const Panel* panel = drawing_.figure().panel("map");
  if (panel == nullptr) return;
  for (int layer = 0; layer < panel->rows; ++layer) {
    for (int head = 0; head < panel->columns; ++head) {
      const Box b = panel->cell(layer, head);
      services_.items->add(
          "board.cell", layer, head,
          item_rect({origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
                    {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())}));
    }
  }
  HeadBoard& board = context.selection->board;
  const HeadSet before = board.global;
  const Cursor at = context.cursor_in(*context.a->run);
  if (by_keys) flip(board.global, {at.layer, at.kv_head});
  brush_.handle(
      board.global, *panel, origin,
      [](int row, int column) {
        return KvHead{row, column};
      },
      ImGui::IsItemHovered(), HeadBrush::Plain::paints);
  if (board.global != before) board.rule.clear(), refused_.clear();
}

}  // namespace kvscope::views

// Every view over every kind of run, without a display.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/random_run.h"
#include "tests/views/view_support.h"
#include "views/figure/recipe.h"
#include "views/imgui_renderer.h"
#include "views/token_strip_view.h"
#include "views/view_list.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

ShownRun shown(RunRecord run, bool preview = false) {
  return {std::make_shared<const RunRecord>(std::move(run)), preview, "A", 1};
}

/// The runs that a view meets: none, empty, growing, without oracle or scores, without budget, unfed last token.
std::vector<ShownRun> runs_of_every_kind() {
  std::vector<ShownRun> runs;
  runs.push_back(shown(RunRecord{}));
  runs.push_back(shown(random_run(1, {.prompt_len = 1, .n_new = 0})));
  runs.push_back(shown(random_run(2, {.prompt_len = 5, .n_new = 2})));
  runs.push_back(shown(random_run(3)));
  runs.push_back(shown(random_run(4, {.oracle = false})));
  runs.push_back(shown(random_run(5, {.policy = "streaming:sinks=4,window=60", .scorer = false, .oracle = false})));
  runs.push_back(shown(random_run(6, {.policy = "full"})));
  runs.push_back(shown(random_run(7, {.policy = "threshold:threshold=0.2,sinks=2,window=8"})));
  runs.push_back(shown(random_run(8, {.last_token_fed = false})));
  runs.push_back(shown(random_run(9, {.n_layers = 36, .n_kv_heads = 8, .prompt_len = 300, .n_new = 100}), true));
  RunRecord growing = random_run(10);
  growing.status = RunStatus::running;
  growing.scores.resize(100, 0);
  growing.future_mass.resize(100, 0);
  growing.oracle_horizon = 90;
  runs.push_back(shown(std::move(growing)));
  return runs;
}

}  // namespace

TEST_CASE("every view and the time deck draw with nothing on show, and offer the command that changes it") {
  HeadlessWindow window;
  std::string command;
  Selection selection;
  ViewContext context{nullptr, nullptr, &selection, [&](const std::string& id) { command = id; }};
  CHECK(context.q() == -1);
  for (const auto& view : make_views(window.services)) {
    INFO(view->id());
    const auto draw = [&] { view->draw(context); };
    for (int i = 0; i < 2; ++i) window.frame(draw);
    CHECK(window.n_vertices() > 0);
    const std::string button = std::string("empty.") + view->id();
    if (std::string(view->id()) == "inspector") continue;
    command.clear();
    window.click(button, draw);
    const bool of_study = view->id() == "study" || view->id() == "gate_training";
    CHECK(command == (of_study ? "study.open" : "run.start"));
  }
  TimeDeck deck(window.services);
  window.frame([&] { deck.draw(context, 40); });
}

TEST_CASE("A view with nothing to show has its button in sight however small it is") {
  HeadlessWindow window(true, {150, 120});
  Selection selection;
  ViewContext context{nullptr, nullptr, &selection, nullptr};
  for (const auto& view : make_views(window.services)) {
    if (std::string(view->id()) == "inspector") continue;
    INFO(view->id());
    for (int i = 0; i < 2; ++i) window.frame([&] { view->draw(context); });
    const auto button = window.items.find(std::string("empty.") + view->id());
    REQUIRE(button.has_value());
    CHECK(button->y + button->h <= 120);
  }
}

TEST_CASE("every view draws every kind of run at every scrub position, in every colour and metric") {
  const bool dark = GENERATE(true, false);
  HeadlessWindow window(dark);
  {
    const auto kept = make_views(window.services);  // these meet every run and position one after the other
    TimeDeck deck(window.services);
    const auto runs = runs_of_every_kind();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const ShownRun& other = runs[(i + 3) % runs.size()];
      for (const ShownRun* b : {static_cast<const ShownRun*>(nullptr), &other}) {
        for (std::int32_t q : {-1, 0, 3, 100, 1 << 20}) {
          if (!dark && q != -1 && q != 100) continue;  // the other theme has other colours, not other places
          Selection selection{.layer = 99, .kv_head = 99, .token = q < 0 ? 2 : q};
          if (q >= 0) selection.q = q;
          ViewContext context{&runs[i], b, &selection, nullptr};
          for (const auto& view : kept) {
            window.frame([&] { view->draw(context); });
            CHECK(window.n_vertices() > 0);
          }
          window.frame([&] { deck.draw(context, 40); });
          for (const MetricInfo& info : metric_list()) {
            selection.metric = info.metric;
            selection.colour = static_cast<ColourMode>(static_cast<int>(info.metric) % 4);
            for (const auto& view : make_views(window.services)) {  // new ones: a picture is not made in every frame
              window.frame([&] { view->draw(context); });
              CHECK(window.n_vertices() > 0);
            }
          }
        }
      }
    }
  }
  CHECK(window.textures.n_alive() == 0);  // views gave back what they took
}

TEST_CASE("what a view draws in any colour and metric makes a figure") {
  HeadlessWindow window;
  const auto views = make_views(window.services);
  const auto runs = runs_of_every_kind();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ShownRun* b = i % 2 == 0 ? nullptr : &runs[(i + 1) % runs.size()];
    for (const MetricInfo& info : metric_list()) {
      Selection selection{.layer = 1, .kv_head = 1, .q = 100, .metric = info.metric};
      selection.colour = static_cast<ColourMode>(static_cast<int>(info.metric) % 4);
      const ViewContext context{&runs[i], b, &selection, nullptr};
      for (const auto& view : views) {
        const auto figure = view->figure(context);
        if (!drawable(&runs[i])) CHECK_FALSE(figure);
        if (!figure) continue;
        FigureRecipe recipe;
        recipe.options = figure->options;
        std::vector<const RunRecord*> pointers;
        for (const auto& run : figure->runs) pointers.push_back(run.get());
        const BuiltFigure built = build_figure(recipe, pointers);
        CHECK(built.data.n_rows() > 0);
        CHECK_FALSE(built.caption.empty());
      }
    }
  }
}

TEST_CASE("views draw in regions of any size") {
  const ImVec2 size = GENERATE(ImVec2{16, 16}, ImVec2{90, 40}, ImVec2{200, 900}, ImVec2{1600, 60}, ImVec2{3800, 2100});
  HeadlessWindow window(true, size);
  const auto views = make_views(window.services);
  const ShownRun a = shown(random_run(3)), b = shown(random_run(4), true);
  Selection selection{.token = 30};
  ViewContext context{&a, &b, &selection, nullptr};
  for (const auto& view : views) {
    for (int i = 0; i < 2; ++i) window.frame([&] { view->draw(context); });
    CHECK(ImGui::GetDrawData()->Valid);
  }
}

TEST_CASE("a preview carries its badge in every view, a measurement in none") {
  HeadlessWindow window;
  const bool preview = GENERATE(true, false);
  const ShownRun a = shown(random_run(3), preview);
  Selection selection{.token = 30};
  ViewContext context{&a, nullptr, &selection, nullptr};
  for (const auto& view : make_views(window.services)) {
    INFO(view->id());
    if (!view->has_content(context)) continue;  // it shows no run
    window.frame([&] { view->draw(context); });
    CHECK(window.items.find("preview.badge").has_value() == preview);
  }
}

TEST_CASE("a hundred thousand tokens cost what is on the screen costs") {
  RandomRunOptions options{.policy = "threshold:threshold=0.2,sinks=4,window=64", .n_layers = 1, .n_kv_heads = 2};
  options.prompt_len = 100000;
  options.n_new = 0;
  options.oracle = false;
  HeadlessWindow window;
  TokenStripView view(window.services);
  const ShownRun a = shown(random_run(1, options));
  Selection selection;
  ViewContext context{&a, nullptr, &selection, nullptr};
  for (int i = 0; i < 3; ++i) window.frame([&] { view.draw(context); });
  CHECK(view.n_lines() > 1000);
  CHECK(window.items.size() < 20000);
  CHECK(window.items.find("strip.token.99999").has_value());
  CHECK_FALSE(window.items.find("strip.token.0").has_value());
  selection.token = 0;  // what is selected elsewhere is scrolled into view
  for (int i = 0; i < 3; ++i) window.frame([&] { view.draw(context); });
  CHECK(window.items.find("strip.token.0").has_value());
  CHECK(window.n_vertices() < 400000);
}

TEST_CASE("textures are uploaded when what they show changed, and only then") {
  HeadlessWindow window;
  const auto views = make_views(window.services);
  const ShownRun a = shown(random_run(3));
  Selection selection{.token = 20};
  ViewContext context{&a, nullptr, &selection, nullptr};
  const auto draw_all = [&] {
    for (const auto& view : views) {
      ImGui::PushID(view->kind());
      ImGui::BeginChild(view->kind(), {780, 400});
      view->draw(context);
      ImGui::EndChild();
      ImGui::PopID();
    }
  };
  for (int i = 0; i < 30; ++i) window.frame(draw_all);
  const int settled = window.textures.n_updates();
  for (int i = 0; i < 30; ++i) window.frame(draw_all);
  CHECK(window.textures.n_updates() == settled);
  selection.layer = 1;
  for (int i = 0; i < 200; ++i) window.frame(draw_all);
  CHECK(window.textures.n_updates() > settled);
}

TEST_CASE("images over the largest texture are cut into tiles that hold every cell") {
  HeadlessWindow window;
  HeatMap map(window.textures);
  map.set({{}, 9000, 3, std::vector<Colour>(27000, Colour{1, 2, 3, 255})});  // the largest texture here is 4096
  CHECK(window.textures.n_alive() == 3);
  map.set({{}, 100, 3, std::vector<Colour>(300, Colour{1, 2, 3, 255})});
  CHECK(window.textures.n_alive() == 1);
  map.clear();
  CHECK(window.textures.n_alive() == 0);
}

TEST_CASE("the window draws a figure's text where the paper has it") {
  HeadlessWindow window;
  FigureDrawing drawing(window.textures);
  Figure figure{400, 300, {255, 255, 255, 255}, "", {}, {}};
  const double angle = GENERATE(0.0, 90.0);
  figure.items.emplace_back(
      Text{"HHHHHHHH", {200, 150}, FontRole::text, 20, {255, 0, 0, 255}, Anchor::middle, Baseline::middle, angle});
  drawing.set(figure);
  ImVec2 min{1e9f, 1e9f}, max{-1e9f, -1e9f};
  window.frame([&] { drawing.draw(*ImGui::GetWindowDrawList(), {0, 0}, 1, window.theme); });
  const ImDrawData* data = ImGui::GetDrawData();
  for (int l = 0; l < data->CmdLists.Size; ++l) {
    for (const ImDrawVert& v : data->CmdLists[l]->VtxBuffer) {
      if (v.col != IM_COL32(255, 0, 0, 255)) continue;
      min = {std::min(min.x, v.pos.x), std::min(min.y, v.pos.y)};
      max = {std::max(max.x, v.pos.x), std::max(max.y, v.pos.y)};
    }
  }
  CHECK((min.x + max.x) / 2 == Approx(200).margin(1.5));  // half a pixel of snapping and a glyph's own margin
  CHECK((min.y + max.y) / 2 == Approx(150).margin(1.5));
  const float along = angle == 0 ? max.x - min.x : max.y - min.y, across = angle == 0 ? max.y - min.y : max.x - min.x;
  CHECK(along > 5 * across);
}

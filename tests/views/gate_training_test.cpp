// Gates while they train: every cell, line and word of the figure against plain loops over the scores, and the view as the training goes on.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/study/table/study_columns.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_support.h"
#include "views/figure/gate_training_figure.h"
#include "views/figure/probe_words.h"
#include "views/figure/recipe.h"
#include "views/gate_training_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::probed_training;

namespace {

constexpr int kLayers = 4, kHeads = 3, kTokens = 40;

StudyTable table_of(const std::vector<double>& steps) { return probed_training(steps, kLayers, kHeads, kTokens); }

float score_of(const StudyTable& table, std::size_t probe, int layer, int head, int t) {
  const std::size_t i =
      ((probe * kLayers + static_cast<std::size_t>(layer)) * kHeads + static_cast<std::size_t>(head)) * kTokens;
  return static_cast<float>(table.array(kProbeScore)->values[i + static_cast<std::size_t>(t)]);
}

/// Share of the head's tokens at 0.5 or above, or their mean score.
double of_head(const StudyTable& table, std::size_t probe, int layer, int head, ProbeQuantity quantity) {
  double sum = 0;
  for (int t = 0; t + 1 < kTokens; ++t) {
    const float score = score_of(table, probe, layer, head, t);
    sum += quantity == ProbeQuantity::kept ? static_cast<double>(score >= 0.5F) : score;
  }
  return sum / (kTokens - 1);
}

double of_token(const StudyTable& table, std::size_t probe, int t) {
  double sum = 0;
  for (int layer = 0; layer < kLayers; ++layer)
    for (int head = 0; head < kHeads; ++head) sum += score_of(table, probe, layer, head, t);
  return sum / (kLayers * kHeads);
}

bool close(Colour a, Colour b) {
  return std::abs(a.r - b.r) <= 1 && std::abs(a.g - b.g) <= 1 && std::abs(a.b - b.b) <= 1;
}

/// The view over a training.
struct Stage {
  explicit Stage(StudyTable table, ImVec2 size = {1000, 700}) : window(true, size), view(window.services) {
    studies.all = {{1, "/a/t.h5", "t.h5", std::make_shared<const StudyTable>(std::move(table)), ""}};
    selection.study.open = {"/a/t.h5"};
    selection.study.shown = "/a/t.h5";
    context.studies = &studies;
  }
  void grow(StudyTable table) { studies.all[0].table = std::make_shared<const StudyTable>(std::move(table)); }
  std::string text(const std::string& id) { return window.items.text(id).value_or("(not drawn)"); }
  bool has(const std::string& id) { return window.items.find(id).has_value(); }
  void draw(int frames = 3) {
    for (int i = 0; i < frames; ++i) window.frame([&] { view.draw(context); });
  }
  void click(const std::string& item) {
    window.click(item, [&] { view.draw(context); });
    draw();
  }
  /// At this share of the item's width and height.
  void move(const std::string& item, double x, double y) {
    const auto rect = window.items.find(item);
    REQUIRE(rect.has_value());
    ImGui::GetIO().MousePos = {rect->x + static_cast<float>(x) * rect->w, rect->y + static_cast<float>(y) * rect->h};
    draw();
  }
  std::string command;
  test::HeadlessWindow window;
  OpenStudies studies;
  Selection selection;
  ViewContext context{nullptr, nullptr, &selection, [this](const std::string& id) { command = id; }};
  GateTrainingView view;
};

}  // namespace

TEST_CASE("Each cell, line and word is the share and the mean that plain loops find, at each step") {
  const StudyTable table = table_of({0, 10, 20});
  const ProbeSummary probes = summarise_probes(table, "");
  const auto quantity = GENERATE(ProbeQuantity::kept, ProbeQuantity::score);
  const std::size_t shown = GENERATE(0u, 1u, 2u);
  const GateTrainingOptions o{.step = static_cast<int>(shown) * 10 + 3, .quantity = quantity};
  const FigureStyle style{};
  const Figure figure = draw_gate_training(probes, o, style);

  // The map: an image of one colour a head, on one scale for all steps.
  double lo = 0, hi = 1;
  if (quantity == ProbeQuantity::score) {
    lo = 1e9, hi = -1e9;
    for (std::size_t p = 0; p < 3; ++p)
      for (int i = 0; i < kLayers * kHeads; ++i) {
        const double v = of_head(table, p, i / kHeads, i % kHeads, quantity);
        lo = std::min(lo, v), hi = std::max(hi, v);
      }
  }
  const auto image = std::ranges::find_if(figure.items, [](const Primitive& item) {
    const auto* candidate = std::get_if<Image>(&item);
    return candidate != nullptr && candidate->columns == kHeads && candidate->rows == kLayers;
  });
  REQUIRE(image != figure.items.end());
  for (int i = 0; i < kLayers * kHeads; ++i) {
    const double v = of_head(table, shown, i / kHeads, i % kHeads, quantity);
    CHECK(close(std::get<Image>(*image).pixels[static_cast<std::size_t>(i)],
                sample(Colormap::viridis, (v - lo) / (hi - lo))));
  }

  // The lines: a point for each step and layer, and a dashed line at the shown step.
  const Box lines = figure.panel("lines")->box;
  const ProbeAxes axes = probe_axes(probes, quantity);
  int n_lines = 0;
  for (const Primitive& item : figure.items) {
    const auto* line = std::get_if<Polyline>(&item);
    if (line == nullptr || line->points.size() != 3) continue;
    for (std::size_t p = 0; p < 3; ++p) {
      double mean = 0;
      for (int head = 0; head < kHeads; ++head) mean += of_head(table, p, n_lines, head, quantity) / kHeads;
      CHECK(line->points[p].x == Approx(lines.x + static_cast<double>(p) / 2 * lines.w));
      CHECK(line->points[p].y == Approx(lines.bottom() - (mean - axes.lo) / (axes.hi - axes.lo) * lines.h));
    }
    ++n_lines;
  }
  CHECK(n_lines == kLayers);
  const double x = lines.x + static_cast<double>(shown) / 2 * lines.w;
  CHECK(std::ranges::any_of(figure.items, [&](const Primitive& item) {
    const auto* line = std::get_if<Polyline>(&item);
    return line != nullptr && line->dash > 0 && std::abs(line->points[0].x - x) < 0.01 && line->points.size() == 2;
  }));

  // The text: each word in the colour of its mean, the last one without a score and without colour.
  double least = 1e9, most = -1e9;
  for (std::size_t p = 0; p < 3; ++p)
    for (int t = 0; t + 1 < kTokens; ++t)
      least = std::min(least, of_token(table, p, t)), most = std::max(most, of_token(table, p, t));
  const auto words = probe_words(probes, figure.panel("text")->box, style.tick_size);
  REQUIRE(std::ssize(words) == kTokens);
  for (const ProbeWord& word : words) {
    const auto fill = std::ranges::find_if(figure.items, [&](const Primitive& item) {
      const auto* box = std::get_if<FillBox>(&item);
      return box != nullptr && std::abs(box->box.x - word.box.x) < 0.01 && std::abs(box->box.y - word.box.y) < 0.01 &&
             std::abs(box->box.w - word.box.w) < 0.01;
    });
    CHECK((fill != figure.items.end()) == (word.token + 1 < kTokens));
    if (fill == figure.items.end()) continue;
    const double v = (of_token(table, shown, word.token) - least) / (most - least);
    CHECK(close(std::get<FillBox>(*fill).colour, sample(Colormap::viridis, v)));
  }
}

TEST_CASE("The numbers beside the figure are those that it draws, and its caption defines them") {
  const StudyTable table = table_of({0, 10, 20});
  const BuiltFigure built = gate_training_figure(table, {.step = 10}, {});
  const auto& mark = column<std::string>(built.data, "mark");
  CHECK(std::ranges::count(mark, "head") == kLayers * kHeads);
  CHECK(std::ranges::count(mark, "layer") == 3 * kLayers);
  CHECK(std::ranges::count(mark, "token") == kTokens);
  for (int i = 0; i < kLayers * kHeads; ++i) {
    const auto row = static_cast<std::size_t>(i);
    CHECK(column<double>(built.data, "step")[row] == 10);
    CHECK(column<double>(built.data, "kept")[row] ==
          Approx(of_head(table, 1, i / kHeads, i % kHeads, ProbeQuantity::kept)));
    CHECK(column<double>(built.data, "score")[row] ==
          Approx(of_head(table, 1, i / kHeads, i % kHeads, ProbeQuantity::score)));
  }
  CHECK_THAT(built.caption, Catch::Contains("at step 10") && Catch::Contains("threshold / tokens with a score") &&
                                Catch::Contains("Threshold 0.5."));
  CHECK_THROWS_AS(gate_training_figure(test::scaling_study(), {}, {}), Error);
  CHECK_THROWS_WITH(gate_training_figure(table, {.source = "x"}, {}), Catch::Contains("\"x\""));
}

TEST_CASE("A gate without a threshold is drawn by its scores, and a figure with no room by what fits") {
  StudyTable table = table_of({0, 10});
  set_probe_threshold(table, std::nan(""));
  CHECK(drawn_quantity(summarise_probes(table, ""), {}) == ProbeQuantity::score);
  const BuiltFigure built = gate_training_figure(table, {}, {});
  CHECK_THAT(built.caption, Catch::Contains("mean score of each head"));
  for (const auto& [width, height] :
       {std::pair(480.0, 360.0), std::pair(300.0, 500.0), std::pair(240.0, 120.0), std::pair(130.0, 95.0)}) {
    CAPTURE(width, height);
    FigureStyle style;
    style.width = width, style.height = height;
    const Figure figure = draw_gate_training(summarise_probes(table, ""), {}, style);
    CHECK(figure.height == height);
    for (const Panel& panel : figure.panels) {
      CHECK(panel.box.bottom() <= height);
      CHECK(panel.box.right() <= width);
    }
  }
}

TEST_CASE("The view follows a training that goes on until another step is chosen, and again from the last") {
  Stage s(table_of({0, 10, 20}));
  s.draw();
  CHECK(s.text("gates.step") == "step 20 of 20");
  s.grow(table_of({0, 10, 20, 30}));
  s.draw();
  CHECK(s.text("gates.step") == "step 30 of 30");
  s.move("gates.lines", 0.34, 0.5);
  CHECK_THAT(s.text("gates.hover"), Catch::Contains("step 10, layer "));
  s.click("gates.lines");  // its middle: between 10 and 20
  CHECK((s.selection.gate_training.step == 10 || s.selection.gate_training.step == 20));
  const std::string chosen = s.text("gates.step");
  s.grow(table_of({0, 10, 20, 30, 40}));
  s.draw();
  CHECK(s.text("gates.step") == chosen.substr(0, chosen.find(" of")) + " of 40");
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure.has_value());
  CHECK(std::get<GateTrainingOptions>(figure->options).step == s.selection.gate_training.step);
  CHECK(figure->study_path == "/a/t.h5");
}

TEST_CASE("The slider chooses a step, and Play goes through all of them once") {
  Stage s(table_of({0, 10, 20, 30}));
  s.draw();
  const auto rect = *s.window.items.find("gates.step");
  ImGui::GetIO().MousePos = {rect.x + 2, rect.centre_y()};
  ImGui::GetIO().MouseDown[0] = true;
  s.draw();
  ImGui::GetIO().MouseDown[0] = false;
  s.draw();
  CHECK(s.selection.gate_training.step == 0);
  CHECK(s.text("gates.step") == "step 0 of 30");
  s.click("gates.play");
  std::vector<int> seen;
  for (int i = 0; i < 400 && (seen.empty() || seen.back() != -1); ++i) {
    s.draw(1);
    if (seen.empty() || seen.back() != s.selection.gate_training.step) seen.push_back(s.selection.gate_training.step);
  }
  CHECK(seen == std::vector<int>{0, 10, 20, -1});
  s.draw(60);
  CHECK(s.selection.gate_training.step == -1);
  s.click("gates.play");  // from the first again
  CHECK(s.selection.gate_training.step >= 0);
}

TEST_CASE("The mouse has the numbers of a head and of a token, and of several trainings one is chosen") {
  const StudyTable one = table_of({0, 10}), two = table_of({0, 10, 99});
  StudyTable joined = join_studies(std::vector{std::pair(std::string("a"), one), std::pair(std::string("b"), two)});
  Stage s(joined);
  s.draw();
  s.move("gates.map", 0.5 / kHeads, 1.5 / kLayers);
  const std::string kept = number_text(of_head(one, 1, 1, 0, ProbeQuantity::kept), 3);
  CHECK_THAT(s.text("gates.hover"), Catch::StartsWith("L1 H0\nkept share " + kept));
  s.move("gates.text", 0.01, 0.02);
  CHECK_THAT(s.text("gates.hover"), Catch::Contains("word0\" (token 0)\nmean score "));
  s.click("gates.quantity.1");
  CHECK(s.selection.gate_training.quantity == ProbeQuantity::score);
  CHECK(s.text("gates.step") == "step 10 of 10");
  s.click("gates.source");
  s.click("gates.source.1");
  CHECK(s.selection.gate_training.source == "b");
  CHECK(s.text("gates.step") == "step 99 of 99");
}

TEST_CASE("A study without probes says how a training gets some") {
  Stage s(test::scaling_study());
  s.draw();
  CHECK(s.has("empty.gate_training"));
  CHECK_FALSE(s.view.has_content(s.context));
  CHECK_FALSE(s.view.figure(s.context).has_value());
  s.click("empty.gate_training");
  CHECK(s.command == "study.open");
}

TEST_CASE("A training of many probes is added up on a thread, and its steps are shown at once after that") {
  std::vector<double> steps;
  for (int i = 0; i < 60; ++i) steps.push_back(10 * i);
  Stage s(probed_training(steps, 36, 8, 100));  // 1.7 million scores
  s.draw(1);
  CHECK_FALSE(s.has("gates.step"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!s.has("gates.step") && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    s.draw(1);
  }
  CHECK(s.text("gates.step") == "step 590 of 590");
  s.selection.gate_training.step = 300;
  s.draw();
  CHECK(s.text("gates.step") == "step 300 of 590");
}

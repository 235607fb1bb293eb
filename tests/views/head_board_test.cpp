// The head board: what a choice of global heads is, takes and covers.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/comparison_table.h"
#include "engine/core/support/text.h"
#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/head_board_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

RunRecord uneven() {
  RunRecord run = random_run(3, {.policy = "threshold:threshold=0,sinks=4,window=16", .n_layers = 6, .n_kv_heads = 4});
  run.model.head_dim = 64;
  run.model.dtype = "bfloat16";
  return run;
}

std::vector<int> entries_by_hand(const RunRecord& run) {
  std::vector<int> entries;
  const int q = run.queries() - 1;
  for (int l = 0; l < run.model.n_layers; ++l) {
    for (int h = 0; h < run.model.n_kv_heads; ++h) {
      int n = 0;
      for (int t = 0; t <= q - run.geometry().window; ++t) n += run.evict_at.row(l, h)[static_cast<std::size_t>(t)] > q;
      entries.push_back(n);
    }
  }
  return entries;
}

template <typename Stage>
void drag(Stage& s, const std::string& from, const std::string& to) {
  ImGuiIO& io = ImGui::GetIO();
  for (const auto& [item, down] : {std::pair{from, false}, {from, true}, {to, true}, {to, false}}) {
    const auto rect = s.window.items.find(item);
    REQUIRE(rect.has_value());
    io.MousePos = {rect->centre_x(), rect->centre_y()};
    io.MouseDown[0] = down;
    s.draw(1);
  }
  s.draw(1);
}

}  // namespace

// With a metric that A had not measured all of the board was grey, and nothing told one head from another.
TEST_CASE("The board goes by density on a scale from 0 to 1, whatever the map shows and however it is scaled") {
  Stage<HeadBoardView> s(uneven());
  for (const Metric metric : {Metric::output_error, Metric::regret, Metric::recall}) {
    choose_metric(s.selection, metric);
    s.selection.map.clip = {true, 0.2, 0.3};
    s.draw();
    const auto options = std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options);
    CHECK(options.metric == Metric::density);
    CHECK_FALSE(options.fit);
    CHECK_FALSE(options.clip.on);
  }
}

TEST_CASE("each strategy's button puts on the board what choose_heads() chooses") {
  Stage<HeadBoardView> s(uneven());
  s.selection.board.share = 0.3;
  s.selection.board.seed = 5;
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  for (int i = 0; i < 4; ++i) {
    const auto strategy = static_cast<HeadStrategy>(i);
    const std::string letter(kHeadStrategies[i]);
    s.window.click("board." + letter, draw);
    HeadQuestion question{.strategy = strategy};
    if (i >= 2) question.share = 0.3;
    if (i == 2) question.seed = 5;
    const HeadSelection expected = choose_heads({s.a.run.get()}, question);
    std::vector<std::uint8_t> local;
    for (const float full : expected.full) local.push_back(full > 0 ? 0 : 1);
    CHECK(s.selection.board.global == global_heads_of(local, 4));
    CHECK(s.selection.board.rule == letter);
    s.draw();
    CHECK(s.text("board.facts") == describe(expected));
    CHECK(s.text("board." + letter) == "on");
  }
}

TEST_CASE("in a small region the board's sentences are brief and leave the map more than half of the room") {
  const float width = GENERATE(245.f, 300.f, 1200.f);
  const ImVec2 size{width, width < 1000 ? 320.f : 700.f};
  HeadlessWindow window(true, size);
  const ShownRun a = shown(uneven());
  Selection selection;
  ViewContext context{&a, nullptr, &selection, nullptr};
  HeadBoardView view(window.services);
  for (int i = 0; i < 4; ++i) window.frame([&] { view.draw(context); });
  const auto first = window.items.find("board.cell.0.0"), last = window.items.find("board.cell.5.3");
  REQUIRE(first.has_value());
  REQUIRE(last.has_value());
  CHECK(last->y + last->h - first->y > 0.2f * size.y);
  CHECK(last->y + last->h <= size.y);
  const auto length = window.items.find("board.context");
  REQUIRE(length.has_value());
  CHECK(length->x + length->w <= size.x);
  CHECK(window.items.text("board.facts").value_or("").ends_with("kept long-range entries"));  // whole, if cut
}

// A note of heads that tie went with the press on one of them: the map moved, and the click was a drag over four heads.
TEST_CASE("The board stays where it is under a press, whatever that changes of what is said above it") {
  RunRecord run = uneven();
  for (int layer = 1; layer < 6; ++layer) {  // heads that keep as many tokens
    for (int head = 0; head < 4; ++head)
      std::ranges::copy(run.evict_at.row(0, 0), run.evict_at.row(layer, head).begin());
  }
  const float width = GENERATE(420.f, 700.f);
  Stage<HeadBoardView> s(std::move(run), {}, {width, 700});
  s.selection.board.share = 0.5;
  s.draw();
  s.window.click("board.d", [&] { s.view.draw(s.context); });
  s.draw();
  REQUIRE(s.has("board.tied"));
  const HeadSet before = s.selection.board.global;
  const std::string item = "board.cell.3.1";
  const auto cell = *s.window.items.find(item);
  s.window.click(item, [&] { s.view.draw(s.context); });
  s.draw();
  CHECK_FALSE(s.has("board.tied"));
  CHECK(s.window.items.find(item)->y == cell.y);
  CHECK(s.selection.board.global.size() == before.size() + (before.contains({3, 1}) ? -1 : 1));
}

// Layout Allocate at 800 x 600: buttons and nothing else.
TEST_CASE("Where the board has room for its buttons alone it says so instead") {
  Stage<HeadBoardView> s(uneven(), {}, {150, 190});
  s.draw();
  CHECK(s.text("too_little.heads") == "Too little room for the heads: maximise the view.");
  CHECK_FALSE(s.has("board.share"));
}

// Layout Allocate at 1280 x 720: the map was 30 pixels high.
TEST_CASE("in a very small region the board says two lines, whose hint has all of it, and its map can be read") {
  Stage<HeadBoardView> s(uneven(), {}, {234, 237});  // with the padding of the window
  s.draw();
  const auto first = s.window.items.find("board.cell.0.0"), last = s.window.items.find("board.cell.5.3");
  REQUIRE((first && last));
  CHECK(last->y + last->h - first->y > 60);
  const ItemRect facts = *s.window.items.find("board.facts"), nll = *s.window.items.find("board.nll");
  CHECK(facts.h < 20);
  CHECK(nll.y > facts.y);
  CHECK(nll.y < facts.y + 24);
  ImGui::GetIO().MousePos = {facts.x + 5, facts.centre_y()};
  s.draw();
  for (const char* item : {"board.facts", "board.bytes", "board.nll"})
    CHECK_THAT(s.text("hint"), Catch::Contains(s.text(item)));
}

TEST_CASE("a click or a drag makes heads global or local as the first of them was not, and what follows follows") {
  Stage<HeadBoardView> s(uneven());
  s.draw();
  drag(s, "board.cell.1.2", "board.cell.1.2");
  CHECK(s.selection.board.global == HeadSet{{1, 2}});
  drag(s, "board.cell.1.1", "board.cell.3.2");  // the first was local
  CHECK(s.selection.board.global == HeadSet{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 1}, {3, 2}});
  drag(s, "board.cell.2.1", "board.cell.2.3");  // the first was global
  CHECK(s.selection.board.global == HeadSet{{1, 1}, {1, 2}, {3, 1}, {3, 2}});
  const std::vector<int> entries = entries_by_hand(*s.a.run);
  int all = 0;
  for (const int n : entries) all += n;
  const int chosen = entries[5] + entries[6] + entries[13] + entries[14];
  CHECK(s.text("board.facts") == "4 of 24 heads global, share 0.167, coverage " + fixed_text(100.0 * chosen / all, 2) +
                                     " % of the kept long-range entries");
  CHECK(s.text("board.bytes").find("At " + std::to_string(s.a.run->model.max_positions) + " tokens: ") == 0);
  s.selection.board.context = 1000;
  s.draw();
  // Key and value of 64 bfloat16: 256 B a token and head; a local head has 4 + 16 tokens.
  const double bytes = 256.0 * (4 * 1000 + 20 * 20), dense = 256.0 * 24 * 1000;
  CHECK(s.text("board.bytes") == "At 1000 tokens: " + format_number(bytes / 1024 / 1024, 4) + " MiB of " +
                                     format_number(dense / 1024 / 1024, 4) + " MiB, " +
                                     fixed_text(100 * bytes / dense, 1) +
                                     " % of a dense cache; a local head keeps 4 sinks and the 16 newest tokens");
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).heads == s.selection.board.global);
  Stage<HeadBoardView> one(random_run(3, {.policy = "kvpop:budget=40,sinks=1,window=16"}));
  one.draw();
  CHECK_THAT(one.text("board.bytes"), Catch::Contains("keeps 1 sink and the 16 newest"));
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).board);
}

TEST_CASE("a head that is changed by hand ends the strategy, and All and None are every head and none") {
  Stage<HeadBoardView> s(uneven());
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("board.d", draw);
  CHECK(s.selection.board.rule == "d");
  drag(s, "board.cell.0.0", "board.cell.0.0");
  CHECK(s.selection.board.rule.empty());
  s.window.click("board.all", draw);
  CHECK(s.selection.board.global.size() == 24);
  s.window.click("board.none", draw);
  CHECK(s.selection.board.global.empty());
  s.selection.heads = {{2, 2}};
  s.draw();
  s.window.click("board.marked", draw);
  CHECK(s.selection.board.global == HeadSet{{2, 2}});
  s.window.click("board.measure", draw);
  CHECK(s.command == "board.measure");
  s.window.click("board.export", draw);
  CHECK(s.command == "board.export");
}

TEST_CASE("where all heads keep as much, D says so and leaves the board as it was") {
  Stage<HeadBoardView> s(random_run(3));
  s.selection.board.global = {{1, 1}};
  s.draw();
  s.window.click("board.d", [&] { s.view.draw(s.context); });
  s.draw();
  CHECK(s.selection.board.global == HeadSet{{1, 1}});
  CHECK_THAT(s.text("board.refused"), Catch::Contains("tokens here, so there is no ranking. Use a gated run, or "));
}

TEST_CASE("the likelihood is said of a run that had exactly these heads, and of no other") {
  Stage<HeadBoardView> s(uneven());
  s.selection.board.global = {{0, 0}, {5, 3}};
  RunRecord hybrid = uneven();
  test::make_local(hybrid, local_heads_of(s.selection.board.global, 6, 4));
  for (std::size_t t = 1; t < hybrid.logprobs.size(); ++t) hybrid.logprobs[t] -= static_cast<float>(t % 3) * 0.125f;
  s.compare_with(hybrid);
  s.draw();
  double a = 0, b = 0;
  int n = 0;
  for (std::size_t t = 1; t < hybrid.logprobs.size(); ++t) {
    if (std::isnan(s.a.run->logprobs[t]) || std::isnan(hybrid.logprobs[t])) continue;
    a -= static_cast<double>(s.a.run->logprobs[t]), b -= static_cast<double>(hybrid.logprobs[t]), ++n;
  }
  REQUIRE(n > 100);
  CHECK(s.text("board.nll") == "NLL, measured: " + fixed_text(b / n, 4) + " in B, " + fixed_text(a / n, 4) +
                                   " in A, +" + fixed_text((b - a) / n, 4) + " nats per token over the " +
                                   std::to_string(n) + " tokens that both have");
  const ComparisonTable table = comparison_table(*s.a.run, hybrid, 100);  // which says it of the same tokens
  CHECK(std::ranges::any_of(table.came_of, [&](const ComparisonRow& row) {
    return row.name == "NLL of all" && std::abs(std::stod(row.b) - b / n) < 5e-3;
  }));
  s.b.preview = true;
  s.draw();
  CHECK(s.text("board.nll") == "NLL: not measured for these heads.");
  s.b.preview = false;
  s.selection.board.global.add({0, 1});
  s.draw();
  CHECK(s.text("board.nll") == "NLL: not measured for these heads.");
}

TEST_CASE("a hybrid study on show predicts the likelihood of the heads on the board, and says that it does") {
  Stage<HeadBoardView> s(uneven());
  const auto n = static_cast<std::size_t>(6 * 4);
  auto study =
      std::make_shared<StudyTable>(StudyTable{.kind = "hybrid",
                                              .request = "{}",
                                              .facts = R"({"signal":"density","sinks":4,"window":64})",
                                              .columns = {{.name = "nll_difference", .units = "", .meaning = ""}}});
  StudyArray heads{.name = "global_heads", .units = "", .meaning = "", .axes = {"point", "layer", "kv_head"}};
  for (const std::size_t global : {0, 6, 12, 24}) {  // of equal signal each head is 1/24 of it
    study->columns[0].numbers.push_back(0.24 - 0.01 * static_cast<double>(global));
    for (std::size_t h = 0; h < n; ++h) heads.values.push_back(h < global ? 1 : 0);
  }
  heads.shape = {4, 6, 4};
  StudyArray signal{.name = "signal_mean", .units = "", .meaning = "", .axes = {"layer", "kv_head"}, .shape = {6, 4}};
  signal.values.assign(n, 0.5);
  study->arrays = {heads, signal};
  OpenStudies studies;
  studies.all = {{1, "/a/h.h5", "h.h5", study, ""}};
  s.selection.board.global = {{0, 0}, {2, 1}, {5, 3}};
  s.draw();
  CHECK_FALSE(s.has("board.predicted"));
  s.context.studies = &studies;
  s.draw();
  CHECK_FALSE(s.has("board.predicted"));  // open, but not on show
  s.selection.study.shown = "/a/h.h5";
  s.draw();
  // Each of the four by the other three: 0 of the end at 0 heads lies 0.06 off, at 24 as far as 12 heads do, those between on the line.
  const double error = std::sqrt((0.06 * 0.06 + 0.12 * 0.12) / 4);
  CHECK(
      s.text("board.predicted") ==
      "NLL, predicted: +0.2100 nats per token against dense, from 12.5 % of the density, interpolated between the 4 choices measured in "
      "h.h5 (leave-one-out error " +
          fixed_text(error, 4) + ", root mean square); local heads in that study have 4 sinks and a window of 64");
  CHECK(s.text("board.nll") == "NLL: not measured for these heads.");
  s.selection.board.global.add({1, 1});
  s.draw();
  CHECK(s.text("board.predicted").find("NLL, predicted: +0.2000 nats") == 0);
  study->arrays[1].shape = {4, 6}, study->arrays[1].values.assign(n, 0.5);  // of another model
  studies.all[0].table = std::make_shared<const StudyTable>(*study);
  s.draw();
  CHECK_FALSE(s.has("board.predicted"));
}

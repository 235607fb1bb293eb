// The study view: what it draws are the table's numbers, what is clicked is the row that stands there.
#include "views/study_view.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/core/study/table/study_columns.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "tests/support/study_literal.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_support.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

/// The view over a study, without a run.
struct Stage {
  explicit Stage(StudyTable table, ImVec2 size = {1600, 900}) : window(true, size), view(window.services) {
    studies.all = {{1, "/a/s.h5", "s.h5", std::make_shared<const StudyTable>(std::move(table)), ""}};
    selection.study.open = {"/a/s.h5"};
    selection.study.shown = "/a/s.h5";
    context.studies = &studies;
  }
  const StudyTable& table() const { return *studies.all[0].table; }
  StudyLook& look() { return selection.study; }
  std::string text(const std::string& id) { return window.items.text(id).value_or("(not drawn)"); }
  bool has(const std::string& id) { return window.items.find(id).has_value(); }
  void draw(int frames = 3) {
    for (int i = 0; i < frames; ++i) window.frame([&] { view.draw(context); });
  }
  void click(const std::string& item) {
    window.click(item, [&] { view.draw(context); });
    draw();
  }
  /// Opens a list and takes the entry that is called so.
  void choose(const std::string& list, const std::vector<std::string>& names, const std::string& name) {
    click(list);
    click(list + "." + std::to_string(std::ranges::find(names, name) - names.begin()));
  }
  void hover(const std::string& item) {
    const auto rect = window.items.find(item);
    REQUIRE(rect.has_value());
    ImGui::GetIO().MousePos = {rect->centre_x(), rect->centre_y()};
    draw();
  }
  std::string command;
  HeadlessWindow window;
  OpenStudies studies;
  Selection selection;
  ViewContext context{nullptr, nullptr, &selection, [this](const std::string& id) { command = id; }};
  StudyView view;
};

double number(const StudyTable& table, const std::string& column, int row) {
  return table.numbers(column, "")[static_cast<std::size_t>(row)];
}

}  // namespace

TEST_CASE("A study whose plot has no room says so") {
  Stage s(preset_study(), {140, 180});
  s.draw();
  CHECK(s.has("too_little.plot"));
  CHECK_FALSE(s.has("study.plot"));
}

TEST_CASE("study: every row that was measured is drawn once, where its numbers lie on the axes") {
  const StudyTable table = preset_study();
  const FigureOptions options = study_figure(table, {});
  const auto& lines = std::get<StudyLinesOptions>(options);
  CHECK(lines.pick.x == "density");
  CHECK(lines.pick.y == std::vector<std::string>{"nll_difference"});
  CHECK(lines.pick.panel == "item");
  const DrawnStudy drawn = draw_study(table, options, {});
  REQUIRE(drawn.points.size() == 10);  // of 15 those that are not the dense policy's
  std::map<int, int> rows;
  for (const DrawnPoint& point : drawn.points) {
    const int row = point.point.row;
    ++rows[row];
    CHECK(point.point.x == number(table, "density", row));
    CHECK(point.point.y == number(table, "nll_difference", row));
    CHECK(point.point.low == Approx(point.point.y - 1.96 * 0.01));
    const auto at = static_cast<std::size_t>(row);
    CHECK(point.series == table.texts(lines.pick.series, "")[at]);
    CHECK(table.texts("item", "")[at] == (point.panel == 0 ? "passkey" : "needle"));  // in the order of the rows
    const Box& box = drawn.built.figure.panel("panel." + std::to_string(point.panel))->box;
    CHECK(box.contains(point.box.centre()));
  }
  for (int row = 0; row < 15; ++row) CHECK(rows[row] == (row < 5 ? 0 : 1));
  const auto place = [&](int row) {
    return std::ranges::find(drawn.points, row, [](const DrawnPoint& p) { return p.point.row; })->box.centre();
  };
  const auto share = [](double a, double b, double c) { return (c - a) / (b - a); };
  CHECK(share(place(6).x, place(8).x, place(10).x) ==
        Approx(share(number(table, "density", 6), number(table, "density", 8), number(table, "density", 10))));
  CHECK(share(place(6).y, place(8).y, place(10).y) ==
        Approx(share(number(table, "nll_difference", 6), number(table, "nll_difference", 8),
                     number(table, "nll_difference", 10))));
  CHECK(drawn_rows(table, options).size() == 10);
}

TEST_CASE("study: a click selects the row that stands there, and the mouse over it says its numbers") {
  Stage stage(preset_study());
  stage.draw();
  const DrawnStudy drawn = draw_study(stage.table(), study_figure(stage.table(), {}), {});
  for (const DrawnPoint& point : drawn.points) {
    const int row = point.point.row;
    const std::string item = "study.point." + std::to_string(row) + "." + std::to_string(point.panel);
    INFO(item);
    stage.click(item);
    CHECK(stage.look().point == row);
    stage.hover(item);
    CHECK_THAT(stage.text("study.hover"),
               Catch::Contains(number_text(number(stage.table(), "density", row), 6)) &&
                   Catch::Contains(number_text(number(stage.table(), "nll_difference", row), 6) + " nats/token") &&
                   Catch::StartsWith(point_name(stage.table(), row)));
    for (const StudyColumn& column : stage.table().columns)
      CHECK(stage.text("study.value." + column.name) == value_with_unit(column, row));
  }
  CHECK_THAT(stage.text("study.value.cache_bytes"), Catch::Contains(" MiB") || Catch::Contains(" KiB"));
  const auto before = stage.look();
  ImGui::GetIO().MousePos = {stage.window.items.find("study.plot")->x + 3,
                             stage.window.items.find("study.plot")->y + 3};
  stage.draw();
  CHECK(stage.text("study.hover") == "(not drawn)");  // nothing is there
  CHECK(stage.look() == before);
}

TEST_CASE("study: choosers offer the table's columns, and what is drawn follows them") {
  Stage stage(preset_study());
  stage.draw();
  const StudyChoices choices = study_choices(stage.table());
  CHECK(std::ranges::find(choices.y, "nll_difference_se") == choices.y.end());
  CHECK(std::ranges::find(choices.by, "density") == choices.by.end());
  CHECK(std::ranges::find(choices.where, "item=needle") != choices.where.end());
  stage.choose("study.y", choices.y, "accuracy");
  CHECK(stage.look().y == "accuracy");
  stage.choose("study.x", choices.x, "share");
  CHECK(stage.look().x == "share");
  std::vector<std::string> by = choices.by;
  by.insert(by.begin(), "none");
  stage.choose("study.panel", by, "none");
  stage.choose("study.by", by, "strategy");
  std::vector<std::string> rows = choices.where;
  rows.insert(rows.begin(), "all");
  stage.choose("study.rows", rows, "item=needle");
  stage.click("study.log_x");
  stage.click("study.interval");
  const auto figure = stage.view.figure(stage.context);
  REQUIRE(figure.has_value());
  const auto& lines = std::get<StudyLinesOptions>(figure->options);
  CHECK(lines.pick.x == "share");
  CHECK(lines.pick.y == std::vector<std::string>{"accuracy"});
  CHECK(lines.pick.series == "strategy");
  CHECK(lines.pick.panel.empty());
  CHECK(lines.pick.where == std::vector<std::string>{"item=needle"});
  CHECK(lines.log_x);
  CHECK(lines.interval == IntervalMark::none);
  CHECK(figure->study_path == "/a/s.h5");
  // Of the ten rows of needle and passkey those of needle.
  CHECK(draw_study(stage.table(), figure->options, {}).points.size() == 5);
}

TEST_CASE("study: where there is little room the choosers are behind a button, and the picture has it") {
  Stage stage(preset_study(), {480, 420});
  stage.draw();
  CHECK_FALSE(stage.has("study.y"));
  CHECK(stage.has("study.plot"));
  stage.click("study.axes");
  stage.choose("study.y", study_choices(stage.table()).y, "accuracy");
  CHECK(stage.look().y == "accuracy");
  CHECK(stage.window.items.find("study.plot")->h > 150);
}

// Layout Allocate at 1280 x 720: the plot was 20 pixels high.
TEST_CASE("study: in a very small region what is said of a point gives way to the plot") {
  Stage stage(preset_study(), {234, 237});
  stage.draw();
  CHECK(stage.window.items.find("study.plot")->h >= 110);
  CHECK(stage.has("study.next"));
}

TEST_CASE("study: the Pareto front is shown along the axes that it is of, and switched off") {
  Stage stage(preset_study());
  stage.draw();
  const auto front = [&] { return std::get<StudyLinesOptions>(stage.view.figure(stage.context)->options).pick.front; };
  CHECK(front() == "on_front");
  CHECK(stage.text("study.front") == "on");
  stage.click("study.front");
  CHECK(front().empty());
  CHECK_FALSE(stage.look().front);
  stage.click("study.front");
  CHECK(front() == "on_front");
  stage.look().x = "share";  // NLL against something else than what a point costs
  stage.draw();
  CHECK(front().empty());
  CHECK(stage.text("study.front") == "off");
  CHECK_THAT(study_axes(stage.table(), stage.look()).no_front, Catch::Contains("NLL or accuracy against density"));
}

TEST_CASE("study: a column of texts gives bars, and a click in one selects its row") {
  Stage stage(study_of("name,value,value_low,value_high\na,1,0.5,1.5\nb,-2,,\nc,3,,\n"));
  stage.look().x = "name";
  stage.draw();
  REQUIRE(std::holds_alternative<StudyBarsOptions>(stage.view.figure(stage.context)->options));
  stage.click("study.point.1.0");
  CHECK(stage.look().point == 1);
  CHECK(stage.text("study.value.value") == "-2");
  stage.hover("study.point.1.0");
  CHECK_THAT(stage.text("study.hover"), Catch::Contains("Value -2"));
  CHECK(draw_study(stage.table(), study_figure(stage.table(), stage.look()), {}).points[1].box.h > 0);
}

TEST_CASE("study: several are listed with kind, points and path, and one that cannot be read says why") {
  Stage stage(preset_study());
  stage.studies.all.push_back(
      {2, "/b/t.h5", "t.h5", std::make_shared<const StudyTable>(study_of("a,b\n1,2\n2,3\n")), ""});
  stage.studies.all.push_back({3, "/c/u.h5", "u.h5", nullptr, "u.h5: no such file"});
  stage.draw();
  CHECK(stage.text("study.list") == "s.h5: sweep, 15 points");
  stage.look().point = 7;
  stage.click("study.list");
  stage.click("study.list.2");
  CHECK(stage.look().shown == "/b/t.h5");
  CHECK(stage.look().point == -1);
  CHECK(stage.text("study.list") == "t.h5: sweep, 2 points");
  stage.click("study.list");
  stage.click("study.list.3");
  CHECK(stage.text("study.unreadable") == "u.h5: no such file");
  CHECK_FALSE(stage.view.has_content(stage.context));
  CHECK_FALSE(stage.view.figure(stage.context).has_value());
  stage.click("study.close");
  CHECK(stage.command == "study.close");
}

TEST_CASE("study: why a point's run cannot be opened stands beside a dead button, with the one thing to do about it") {
  Stage stage(preset_study());
  stage.look().point = 7;
  stage.draw();
  CHECK(stage.text("study.open_point") == "on");
  stage.click("study.open_point");
  CHECK(stage.command == "study.open_point");
  stage.command.clear();
  stage.studies.run = {.from = {},
                       .why_not = "Another model is open.",
                       .remedy = "study.open_model",
                       .label = "Open a model",
                       .notes = {"in other words"},
                       .n_pieces = 3};
  stage.draw();
  CHECK(stage.text("study.why_not") == "Another model is open.");
  CHECK(stage.text("study.open_point") == "off");
  stage.click("study.open_point");
  CHECK(stage.command.empty());
  stage.click("study.remedy");
  CHECK(stage.command == "study.open_model");
  CHECK(stage.text("study.note") == "in other words");
  stage.click("study.piece_next");
  stage.click("study.piece_next");
  stage.click("study.piece_next");
  CHECK(stage.look().piece == 2);
  CHECK(stage.text("study.piece") == "piece 3 of 3");
}

TEST_CASE("study: axes that give no figure say why, and any size of region and table is drawn") {
  Stage stage(preset_study());
  stage.look().where = {"item=nothing"};
  stage.draw();
  CHECK_THAT(stage.text("study.refusal"), Catch::Contains("no point has both"));
  const ImVec2 size = GENERATE(ImVec2{60, 60}, ImVec2{300, 700}, ImVec2{1600, 80}, ImVec2{3800, 2100});
  for (const char* table : {"a\n1\n", "a,b\nx,y\n", "a,b\n,\n", "x,y\n1,2\n"}) {
    Stage other(study_of(table), size);
    other.look().point = 0;
    other.draw();
    CHECK(other.window.n_vertices() > 0);
  }
}

TEST_CASE("study: a table of a hundred thousand rows is drawn beside the frames") {
  std::string csv = "density,nll,policy\n";
  for (int i = 0; i < 100'000; ++i) csv += std::to_string(i) + "," + std::to_string(i % 77) + ",p\n";
  Stage stage(study_of(csv));
  stage.draw();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!stage.has("study.plot") && std::chrono::steady_clock::now() < deadline) stage.draw(1);
  CHECK(stage.has("study.plot"));
}

TEST_CASE("study: the curve of a training is lines over steps without marks, with the newest rows beside, and no run") {
  const std::string heading = "step,tokens,learning_rate,loss_all,tokens_per_s[tokens/s],seconds[s]\n";
  const std::pair<std::string, StudyTable> both[] = {
      {"a", study_of(heading + "1,8,0.1,3,100,1\n2,16,0.1,2.5,110,2\n", kTrainingStudy)},
      {"b", study_of(heading + "1,8,0.1,4,200,1\n", kTrainingStudy)}};
  Stage stage(join_studies(both));
  stage.draw();
  CHECK(stage.text("study.list") == "s.h5: training, 3 points");
  const FigureOptions options = study_figure(stage.table(), stage.look());
  const auto& lines = std::get<StudyLinesOptions>(options);
  CHECK(lines.pick.x == "step");
  CHECK(lines.pick.y == std::vector<std::string>{"loss_all"});
  CHECK(lines.pick.series == "source");
  CHECK_FALSE(lines.marks);
  CHECK(stage.text("study.newest.1") == "a: step 2, loss_all 2.5, 110 tokens/s, 2 s");
  CHECK(stage.text("study.newest.2") == "b: step 1, loss_all 4, 200 tokens/s, 1 s");
  stage.click("study.point.1.0");
  CHECK(stage.text("study.value.loss_all") == "2.5");
  CHECK_FALSE(stage.has("study.open_point"));
  CHECK_FALSE(stage.has("study.stale"));
  stage.studies.all[0].stale = "the file is missing";
  stage.draw();
  CHECK(stage.text("study.stale") == "Showing the last version read: the file is missing");
}

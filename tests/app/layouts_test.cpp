// The given layouts, views that are open more than once, and how a row divides its width at first.

#include "app/command/layouts.h"

#include <catch2/catch.hpp>
#include <string>

#include "app/workspace/look_scope.h"
#include "app/workspace/workspace_state.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"

using namespace kvscope;
using namespace kvscope::app;
using test::decode_short;

namespace {

/// Its window would make the second strip.
struct FirstAgain : views::View {
  FirstAgain() { set_number(2); }
  const char* kind() const override { return "token_strip"; }
  const char* title() const override { return "Token strip"; }
  views::Place place() const override { return views::Place::strip; }
  void draw(views::ViewContext&) override {}
};

}  // namespace

TEST_CASE("A given layout is on show after its command, and no other") {
  test::Program program;
  for (const LayoutPreset& layout : layout_presets()) {
    program.commands.execute("layout." + std::string(layout.name));
    for (const LayoutPreset& other : layout_presets()) {
      CAPTURE(layout.name, other.name);
      CHECK(is_shown(other, program.ui, false) == (layout.name == other.name));
    }
  }
  program.ui.left = !program.ui.left;
  for (const LayoutPreset& layout : layout_presets()) CHECK_FALSE(is_shown(layout, program.ui, false));
}

TEST_CASE("A command without a view's name means the maximised view, the one that is pointed at, then the main row") {
  test::Program program;
  const auto meant = [&] {
    std::string names;
    for (const views::View* view : meant_views(program.ui, program.views))
      names += (names.empty() ? "" : " ") + std::string(view->id());
    return names;
  };
  program.commands.execute("layout.explore");
  CHECK(meant() == "layer_head_map cache_timeline");
  program.ui.pointed_view = "token_strip";
  CHECK(meant() == "token_strip layer_head_map cache_timeline");
  program.ui.pointed_view = "inspector";  // has neither a figure nor a larger form
  CHECK(meant() == "layer_head_map cache_timeline");
  program.ui.pointed_view = "cache_timeline";
  program.commands.execute("view.maximise");
  CHECK(program.ui.maximised == "cache_timeline");
  program.ui.pointed_view = "gone";
  CHECK(meant() == "cache_timeline layer_head_map cache_timeline");
  program.commands.execute("view.maximise");
  CHECK(program.ui.maximised.empty());
}

// Two maps beside each other had 38 pixels each, in Compare 20.
TEST_CASE(
    "At 1280 x 720 the map's part of the row at first has the room of two maps, and the last view no less than another") {
  test::Program program;
  const auto width = [&](const char* layout, std::size_t i) {  // of view i of the row
    program.commands.execute(std::string("layout.") + layout);
    std::vector<std::string> row;
    for (const views::View* view : main_row(program.ui, program.views)) row.push_back(view->id());
    const float room = 590 - 6 * static_cast<float>(row.size() - 1);
    CHECK(end_at_first(row, row.size() - 1) == 1);
    return room * (end_at_first(row, i) - (i > 0 ? end_at_first(row, i - 1) : 0));
  };
  CHECK(width("explore", 0) > 279);
  CHECK(width("explore", 1) > 279);
  CHECK(width("compare", 0) > 241);
  CHECK(width("compare", 1) == Approx(578 * 0.28));
  CHECK(width("compare", 2) > width("compare", 1));
  CHECK(width("allocate", 0) == Approx(584 * 0.42));  // without the map, and without a study two views
}

TEST_CASE("A view that is opened again has the look of the first, and then its own") {
  test::Program program;
  UiState& ui = program.ui;
  views::Selection& selection = program.session.selection();
  program.run("view.metric", {{"metric", "recall"}});
  program.run("view.another", {{"view", "layer_head_map"}});
  REQUIRE(ui.looks.contains("layer_head_map.2"));
  CHECK(ui.looks["layer_head_map.2"].look.metric == Metric::recall);
  CHECK(windows_of(ui.arrangement).size() == windows_of(arrangement_of({"a", "b", "c"})).size());
  program.run("view.metric", {{"metric", "density"}, {"view", "layer_head_map.2"}});
  CHECK(selection.metric == Metric::recall);
  CHECK(ui.looks["layer_head_map.2"].look.metric == Metric::density);
  {
    const LookScope scope(selection, ui, "layer_head_map.2");
    CHECK(selection.metric == Metric::density);
    const LookScope inner(selection, ui, "layer_head_map.2");  // commands that the view runs are inside of it
    CHECK(selection.metric == Metric::density);
    const WorkspaceState state = capture_state(program.session, ui, ui);
    CHECK(state.selection.metric == Metric::recall);
    CHECK(state.layout.looks.at("layer_head_map.2").look.metric == Metric::density);
  }
  CHECK(selection.metric == Metric::recall);
  CHECK(open_another(ui, selection, "layer_head_map.2") == "layer_head_map.3");
  CHECK(ui.looks["layer_head_map.3"].look.metric == Metric::density);
  {
    const LookScope scope(selection, ui, "layer_head_map.2");  // a key of that view closes it
    program.run("view.close", {{"view", "layer_head_map"}});
    program.run("layout.explore");
  }
  CHECK(selection.metric == Metric::recall);
}

TEST_CASE("A view that holds its head keeps it while the selection goes elsewhere") {
  test::Program program;
  views::Selection& selection = program.session.selection();
  selection.layer = 2, selection.kv_head = 1;
  const std::string view = open_another(program.ui, selection, "token_strip");
  program.views.push_back(std::make_unique<FirstAgain>());
  program.run("view.hold_head", {{"view", view}});
  selection.layer = 0, selection.kv_head = 3;
  {
    const LookScope scope(selection, program.ui, view);
    CHECK(selection.layer == 2);
    CHECK(selection.kv_head == 1);
  }
  CHECK(selection.layer == 0);
  program.run("view.hold_head", {{"view", view}});
  const LookScope scope(selection, program.ui, view);
  CHECK(selection.kv_head == 3);
}

TEST_CASE(
    "What is closed leaves its room to its neighbour, and what opens gets a part beside, in place of or over another") {
  Arrangement all = arrangement_of({"a", "b"});
  const Arrangement before = all;
  open_beside(all, "c", "a");
  CHECK(windows_of(all) == std::vector<std::string>{"left", "token_strip", "a", "c", "b", "deck", "inspector", "log"});
  close_window(all, "c");
  CHECK(all == before);
  open_as_tab(all, "d", "b");
  CHECK(group_of(all, "b")->front == "d");
  close_window(all, "d");
  open_instead(all, "e", "a");
  CHECK_FALSE(has_window(all, "a"));
  open_floating(all, "b", 0.5f, 0.5f, 0.25f, 0.25f);
  REQUIRE(all.floating.size() == 1);
  CHECK(all.docked == arrangement_of({"e"}).docked);
  CHECK(arrangement_from(arrangement_json(all), "f") == all);
  close_window(all, "b");
  CHECK(all == arrangement_of({"e"}));
  for (const std::string& id : windows_of(all)) close_window(all, id);
  CHECK(windows_of(all).empty());
  open_beside(all, "a", "nothing");
  CHECK(windows_of(all) == std::vector<std::string>{"a"});
}

WINDOW_TEST("The bar of the layouts applies them and shows their keys where there is room") {
  decode_short(window);
  const std::vector<std::string> compare = {"layer_head_map", "comparison", "run_curves"};
  CHECK(window.text_soon("layout.compare", "F7") == "Compare  F7");
  window.click("layout.compare");
  window.wait({{"/ui/main_row", compare}});
  window.click("layout.explore");
  window.wait({{"/ui/main_row", {"layer_head_map", "cache_timeline"}}});
}

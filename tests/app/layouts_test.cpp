// How the main row divides its width while nobody has moved a splitter.

#include "app/command/layouts.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/app/program.h"

using namespace kvscope;
using namespace kvscope::app;

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
    const auto row = main_row(program.ui, program.views);
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

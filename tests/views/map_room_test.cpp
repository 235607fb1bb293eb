// What is written in the layer x head map has its room: no number, caption or badge lies over another.

#include <catch2/catch.hpp>

#include "tests/support/random_run.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/layer_head_map_figure.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

/// From the top of the capitals to the base line.
Box box_of(const Text& text) {
  const double w = text_width(text.utf8, text.role, text.size), h = 0.72 * text.size;
  const double x = text.at.x - (text.anchor == Anchor::start ? 0 : text.anchor == Anchor::middle ? w / 2 : w);
  const double y = text.at.y - (text.baseline == Baseline::alphabetic ? h
                                : text.baseline == Baseline::middle   ? h / 2
                                                                      : -0.2 * text.size);
  return {x, y, w, h};
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

void check_apart(const Figure& figure) {
  std::vector<Text> texts;
  for (const Primitive& item : figure.items) {
    if (const auto* text = std::get_if<Text>(&item); text && text->angle == 0) texts.push_back(*text);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      CAPTURE(texts[i].utf8, texts[k].utf8);
      CHECK_FALSE(overlap(box_of(texts[i]), box_of(texts[k])));
    }
  }
}

Figure map_of(const std::vector<RunRecord>& runs, const LayerHeadMapOptions& options, double width) {
  std::vector<const RunRecord*> pointers;
  for (const RunRecord& run : runs) pointers.push_back(&run);
  FigureStyle style;
  style.width = width, style.height = 260;
  style.tick_size = 11, style.label_size = 12;  // as in the window
  return layer_head_map_figure(pointers, options, style).figure;
}

}  // namespace

TEST_CASE("the badge of a preview as B has a row of its own, above the captions and inside the picture") {
  const std::vector<RunRecord> runs = {random_run(3), random_run(3, {.policy = "streaming:window=60"})};
  const MapCompare compare = GENERATE(MapCompare::side_by_side, MapCompare::difference);
  for (double width = 200; width < 500; width += 50) {
    CAPTURE(width);
    const Figure figure = map_of(runs, {.compare = compare, .preview_b = true, .name_b = "preview of A"}, width);
    check_apart(figure);
    for (const Primitive& item : figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (!text || text->utf8 != kPreviewBadge) continue;
      CHECK(box_of(*text).x >= 0);
      CHECK(box_of(*text).y >= 1);
    }
  }
}

TEST_CASE("a long name of a run or its gate is cut where the next map begins, or the picture ends") {
  const std::vector<RunRecord> runs = {random_run(3), random_run(3, {.policy = "streaming:window=60"})};
  const bool lock = GENERATE(true, false);
  for (double width = 200; width < 700; width += 50) {
    CAPTURE(width, lock);
    const Figure figure = map_of(runs,
                                 {.compare = MapCompare::side_by_side,
                                  .name_a = "A the third of ten by gate wg-kv-0.003",
                                  .name_b = "preview of A by gate wg-kv-0.03é",
                                  .lock = lock},
                                 width);
    check_apart(figure);
    for (const Primitive& item : figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (text && text->role == FontRole::bold) CHECK(box_of(*text).right() <= width);
    }
  }
}

TEST_CASE("the axis by layer has two numbers where there is room for them, and one where there is not") {
  const std::vector<RunRecord> runs = {random_run(3, {.n_kv_heads = 3}),
                                       random_run(3, {.policy = "streaming:window=60", .n_kv_heads = 3})};
  const MapCompare compare = GENERATE(MapCompare::none, MapCompare::difference);
  const std::vector<RunRecord> shown(runs.begin(), runs.begin() + (compare == MapCompare::none ? 1 : 2));
  for (double width = 180; width < 700; width += 20) {
    CAPTURE(width);
    check_apart(map_of(shown, {.metric = Metric::recall, .compare = compare, .fit = true}, width));
  }
}

// The numbers behind the figures, against plain counting.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "views/figure/image_means.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/lifeline_image.h"
#include "views/figure/state_colours.h"
#include "views/figure/timeline_figure.h"
#include "views/figure/token_facts.h"
#include "views/figure/token_strip_figure.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

}  // namespace

TEST_CASE("the map's data are the metric of every head") {
  const RunRecord run = random_run(3);
  const RunRecord* runs[] = {&run};
  LayerHeadMapOptions options;
  options.metric =
      GENERATE(Metric::density, Metric::evict_ratio, Metric::cache_share, Metric::recall, Metric::mass_recall);
  options.q = GENERATE(-1, 10, 100);
  const BuiltFigure built = layer_head_map_figure(runs, options, {});
  const HeadMap expected = head_metric(run, options.metric, options.q < 0 ? run.n_tokens() - 1 : options.q);
  const auto& value = column<double>(built.data, "value");
  REQUIRE(value.size() == expected.values.size());
  for (std::size_t i = 0; i < value.size(); ++i) CHECK(same(value[i], expected.values[i]));
  REQUIRE(built.figure.panel("map") != nullptr);
  CHECK(built.figure.panel("map")->rows == run.evict_at.n_layers());
  CHECK(built.figure.panel("map")->columns == run.evict_at.n_kv_heads());
}

TEST_CASE("several runs are aggregated head by head") {
  std::vector<RunRecord> records;
  for (std::uint64_t seed : {1, 2, 3, 4}) records.push_back(random_run(seed));
  std::vector<const RunRecord*> runs;
  for (const RunRecord& r : records) runs.push_back(&r);
  const HeadMap low = aggregate_metric(runs, Metric::recall, -1, Aggregate::min);
  const HeadMap median = aggregate_metric(runs, Metric::recall, -1, Aggregate::median);
  const HeadMap average = aggregate_metric(runs, Metric::recall, -1, Aggregate::mean);
  for (std::size_t i = 0; i < low.values.size(); ++i) {
    std::vector<float> values;
    for (const RunRecord* run : runs)
      values.push_back(head_metric(*run, Metric::recall, run->n_tokens() - 1).values[i]);
    std::sort(values.begin(), values.end());
    CHECK(low.values[i] == values[0]);
    CHECK(median.values[i] == Approx((values[1] + values[2]) / 2));
    CHECK(average.values[i] == Approx((values[0] + values[1] + values[2] + values[3]) / 4));
  }
}

TEST_CASE("B minus A is the difference of both maps, and of a run with itself nothing") {
  const RunRecord a = random_run(1), b = random_run(1, {.policy = "threshold:threshold=0.1,sinks=4,window=16"});
  const RunRecord* runs[] = {&a, &b};
  LayerHeadMapOptions options;
  options.metric = Metric::cache_share;
  options.compare = MapCompare::difference;
  const auto built = layer_head_map_figure(runs, options, {});
  const HeadMap ma = head_metric(a, options.metric, a.n_tokens() - 1),
                mb = head_metric(b, options.metric, b.n_tokens() - 1);
  const auto& value = column<double>(built.data, "value");
  for (std::size_t i = 0; i < value.size(); ++i) CHECK(value[i] == Approx(mb.values[i] - ma.values[i]));
  const RunRecord* twice[] = {&a, &a};
  const BuiltFigure nothing = layer_head_map_figure(twice, options, {});
  for (double v : column<double>(nothing.data, "value")) CHECK(v == 0);

  // W3: of other tokens no cell is the other's. A recipe drew it, where the window refused.
  RunRecord other = b;
  other.ids[60] += 1;
  const RunRecord* parted[] = {&a, &other};
  CHECK_THROWS_WITH(layer_head_map_figure(parted, options, {}), Catch::Contains("tokens diverge at 60"));
  options.q = 59;
  CHECK_NOTHROW(layer_head_map_figure(parted, options, {}));
  options.q = -1;
  options.compare = MapCompare::side_by_side;
  CHECK_THAT(layer_head_map_figure(parted, options, {}).caption,
             Catch::Contains("Their tokens diverge at 60: each map uses its own run's text"));
  options.q = 59;
  CHECK_THAT(layer_head_map_figure(parted, options, {}).caption, !Catch::Contains("diverge at"));

  const RunRecord shorter = random_run(1, {.n_new = 4});
  const RunRecord* uneven[] = {&a, &shorter};
  options.q = a.queries() - 1;
  REQUIRE(shorter.queries() <= options.q);
  CHECK_THAT(layer_head_map_figure(uneven, options, {}).caption,
             Catch::Contains(" B is at its last query, " + std::to_string(shorter.queries() - 1) + "."));
}

TEST_CASE("runs of different shapes are not compared or aggregated") {
  const RunRecord a = random_run(1), b = random_run(1, {.n_layers = 3});
  const RunRecord* runs[] = {&a, &b};
  CHECK_THROWS_AS(layer_head_map_figure(runs, {}, {}), Error);
  LayerHeadMapOptions side;
  side.compare = MapCompare::side_by_side;
  CHECK_THROWS_AS(layer_head_map_figure(runs, side, {}), Error);
  CHECK_THROWS_AS(layer_head_map_figure({}, {}, {}), Error);
}

TEST_CASE("the strip counts the heads that see each token") {
  const RunRecord run = random_run(5);
  TokenStripOptions options;
  options.q = GENERATE(-1, 90);
  options.count = 40;
  const std::int32_t q = options.q < 0 ? run.n_tokens() - 1 : options.q;
  const BuiltFigure built = token_strip_figure(run, options, {});
  const auto& position = column<std::int64_t>(built.data, "position");
  const auto& layer = column<std::int64_t>(built.data, "layer");
  const auto& kept = column<std::int64_t>(built.data, "kept_heads");
  const RetentionGeometry g = run.geometry();
  REQUIRE(position.size() == 40u * run.evict_at.n_layers());
  for (std::size_t i = 0; i < position.size(); ++i) {
    const std::int64_t t = position[i];
    CHECK(t >= g.n_sink);
    CHECK(t <= q - g.window);
    int seen = 0;
    for (int h = 0; h < run.evict_at.n_kv_heads(); ++h)
      seen += t <= q && q < run.evict_at.row(static_cast<int>(layer[i]), h)[t];
    CHECK(kept[i] == seen);
  }
  CHECK(*std::max_element(position.begin(), position.end()) == q - g.window);
}

TEST_CASE("a strip's axis of tokens has its name once, over its numbers, and the colour bar is as high as all lines") {
  const RunRecord run = random_run(5);
  TokenStripOptions options;
  options.count = 40;
  options.bands = GENERATE(1, 2, 4);
  options.preview = GENERATE(false, true);
  const FigureStyle style;
  const Figure figure = token_strip_figure(run, options, style).figure;
  std::vector<Text> names;
  double lowest_number = 0;  // of those over the first line
  const Box first = figure.panel("strip")->box;
  for (const auto& item : figure.items) {
    const auto* text = std::get_if<Text>(&item);
    if (text && text->utf8 == "Token position") names.push_back(*text);
    if (text && text->size < style.tick_size && text->at.y < first.y)
      lowest_number = std::max(lowest_number, text->at.y);
  }
  REQUIRE(names.size() == 1);
  REQUIRE(lowest_number > 0);
  CHECK(names[0].at.y + 0.5 * names[0].size <= lowest_number - 0.5 * style.tick_size);
  CHECK(names[0].at.y - 0.5 * names[0].size >= 0);
  const Box last = figure.panel(options.bands == 1 ? "strip" : "strip." + std::to_string(options.bands - 1))->box;
  const Image* bar = nullptr;
  for (const auto& item : figure.items) {
    const auto* image = std::get_if<Image>(&item);
    if (image && image->box.x > first.right()) bar = image;
  }
  REQUIRE(bar);
  CHECK(bar->box.y == Approx(first.y));
  CHECK(bar->box.bottom() == Approx(last.bottom()));
}

TEST_CASE("one head's strip has what colours it, and B's fate of the tokens that both runs have") {
  const RunRecord a = random_run(5);
  RunRecord b = random_run(5, {.policy = "streaming:window=60"});
  b.ids[30] += 1;  // the texts part here
  TokenStripOptions options;
  options.q = 90;
  options.first = 0;
  options.count = 91;
  options.layer = 1;
  options.kv_head = 2;
  options.colour = GENERATE(ColourMode::state, ColourMode::score, ColourMode::kept_heads, ColourMode::oracle);
  options.with_b = true;
  const BuiltFigure built = token_strip_figure(a, options, {}, &b);
  std::set<std::string> words;  // the rows are runs, not heads
  for (const Primitive& item : built.figure.items) {
    if (const auto* text = std::get_if<Text>(&item)) words.insert(text->utf8);
  }
  CHECK(words.contains("Run"));
  CHECK_FALSE(words.contains("KV head"));
  const auto& position = column<std::int64_t>(built.data, "position");
  const auto& kept = column<std::int64_t>(built.data, "kept");
  const auto& name = column<std::string>(built.data, "run");
  REQUIRE(position.size() == 91 + 30);
  for (std::size_t i = 0; i < position.size(); ++i) {
    const RunRecord& run = name[i] == "A" ? a : b;
    const std::int64_t t = position[i];
    CHECK(kept[i] == (90 < run.evict_at.row(1, 2)[t]));
    if (options.colour == ColourMode::score)
      CHECK(same(column<double>(built.data, "score")[i], run.scores.row(1, 2)[t]));
    if (options.colour == ColourMode::oracle) {  // the words of the file, which no legend's wording changes
      const Verdict verdict = HeadAtQuery(run, 1, 2, 90).verdict(static_cast<std::int32_t>(t));
      CHECK(column<std::string>(built.data, "oracle")[i] ==
            (verdict == Verdict::none           ? "no choice"
             : verdict == Verdict::kept_rightly ? "kept, as the oracle"
             : verdict == Verdict::kept_wrongly ? "kept, the oracle drops it"
             : verdict == Verdict::missed       ? "missed: the oracle keeps it"
                                                : "dropped, as the oracle"));
    }
  }
  CHECK_THROWS_AS(token_strip_figure(a, options, {}), Error);
  CHECK_THROWS_AS(token_strip_figure(a, {.kv_head = 1}, {}), Error);
}

TEST_CASE("bands of a strip show all its tokens, each once") {
  const RunRecord run = random_run(6);
  TokenStripOptions options;
  options.count = 100;
  options.bands = GENERATE(1, 2, 3, 7);
  const BuiltFigure built = token_strip_figure(run, options, {});
  int columns = 0;
  for (const Panel& panel : built.figure.panels) columns += panel.columns;
  CHECK(static_cast<int>(built.figure.panels.size()) == options.bands);
  CHECK(columns == 100);
}

// Of 484 tokens the axis had a lone 0 in some heights, and the scale below wrote its 500 over it.
TEST_CASE("the axes of a timeline have two numbers at least, of which none is written over another") {
  for (int n = 90; n < 700; n += 23) {
    const RunRecord run = random_run(8, {.prompt_len = n - 20, .n_new = 20});
    for (double height = 180; height < 420; height += 30) {
      CAPTURE(n, height);
      FigureStyle style;
      style.width = 300, style.height = height, style.tick_size = 9, style.label_size = 12;
      std::vector<double> at;
      const Figure figure = timeline_figure(run, {.layer = 0, .kv_head = 0, .occupancy = true}, style).figure;
      for (const Primitive& item : figure.items) {
        const auto* text = std::get_if<Text>(&item);
        if (text != nullptr && text->anchor == Anchor::end && text->angle == 0) at.push_back(text->at.y);
      }
      std::ranges::sort(at);
      CHECK(at.size() >= 4);
      for (std::size_t i = 1; i < at.size(); ++i) CHECK(at[i] - at[i - 1] > style.tick_size);
    }
  }
}

// The preview of an export is smaller than the figure on paper: it had every fourth row, as if the others were not there.
TEST_CASE("a picture in fewer pixels than cells is their means, and of no cell is left out") {
  Image fine{{0, 0, 120, 60}, 1200, 600, {}};
  for (int r = 0; r < fine.rows; ++r) {
    for (int c = 0; c < fine.columns; ++c) {
      const Colour line = r % 10 == 0 ? Colour{255, 0, 0} : Colour{0, 0, 200};
      fine.pixels.push_back(c < 600 ? line : Colour{0, 0, 0, 0});
    }
  }
  for (const auto& [columns, rows] : {std::pair{60, 30}, {120, 60}, {1200, 60}}) {
    const Image means = image_means(fine, columns, rows);
    REQUIRE(means.columns == columns);
    REQUIRE(means.rows == rows);
    CHECK(means.box.w == 120);
    for (int i = 0; i < columns * rows; ++i) {
      const bool is_line = i % columns < columns / 2;
      CHECK(means.pixels[static_cast<std::size_t>(i)] == (is_line ? Colour{26, 0, 180} : Colour{0, 0, 0, 0}));
    }
  }
  CHECK(image_means(fine, 1200, 600).pixels == fine.pixels);
  CHECK(image_means(fine, 5000, 5000).columns == 1200);
  const Image edge = image_means({{}, 2, 1, {{10, 20, 30}, {0, 0, 0, 0}}}, 1, 1);
  CHECK(edge.pixels[0] == Colour{10, 20, 30, 128});
  Figure figure;
  figure.items.emplace_back(fine);
  CHECK(std::get<Image>(for_pixels(figure, 1.5).items[0]).columns == 180);
  CHECK(std::get<Image>(for_pixels(figure, 20).items[0]).columns == 1200);
}

TEST_CASE("lifelines have the colour of each token's state at each query, and nothing before its birth") {
  RunRecord run = random_run(8, {.prompt_len = 60, .n_new = 20});
  if (GENERATE(false, true)) {  // a head with another window and other sinks than the policy's
    run.heads.assign(6, rule_of(run.geometry()));
    run.heads.back().window += 3, run.heads.back().n_sink += 2;
  }
  const RetentionGeometry g = run.geometry(1, 2);
  const int n = run.n_tokens();
  const Image image = lifeline_image(run, 1, 2, 4096, false);
  REQUIRE(image.columns == n);
  for (int t = 0; t < n; ++t) {
    for (int q = 0; q < n; ++q) {
      const Colour pixel = image.pixels[static_cast<std::size_t>(n - 1 - t) * n + q];
      if (q < t) {
        CHECK(pixel.a == 0);
      } else {
        CHECK(pixel == state_colour(token_state(q, t, run.evict_at.row(1, 2)[t], g.n_sink, g.window), false));
      }
    }
  }
  CHECK(lifeline_image(run, 1, 2, 25, false).columns <= 25);
}

TEST_CASE("the timeline's data tell when each token went") {
  const RunRecord run = random_run(9);
  const BuiltFigure built = timeline_figure(run, {.layer = 1, .kv_head = 0}, {});
  const auto& evicted = column<double>(built.data, "evict_at");
  REQUIRE(evicted.size() == run.ids.size());
  for (std::size_t t = 0; t < evicted.size(); ++t) {
    const std::int32_t e = run.evict_at.row(1, 0)[t];
    CHECK(same(evicted[t], e >= kUndecided ? std::nan("") : e));
  }
}

TEST_CASE("verdicts count to the recall of the head") {
  const RunRecord run = random_run(11);
  const std::int32_t q = GENERATE(80, 120, 179);
  const HeadMap recall = head_metric(run, Metric::recall, q);
  for (int l = 0; l < run.evict_at.n_layers(); ++l) {
    for (int h = 0; h < run.evict_at.n_kv_heads(); ++h) {
      std::map<Verdict, int> n;
      const HeadAtQuery head(run, l, h, q);
      for (std::int32_t t = 0; t <= q; ++t) ++n[head.verdict(t)];
      const double keeps = n[Verdict::kept_rightly] + n[Verdict::missed];
      REQUIRE(keeps > 0);
      CHECK(n[Verdict::kept_rightly] / keeps == Approx(recall.at(l, h)));
    }
  }
}

TEST_CASE("scores of a head span its 2nd to 98th percentile, and a head without scores spans 0 to 1") {
  const RunRecord run = random_run(12);
  const ScoreRange range = score_range(run, 0, 0);
  int below = 0, above = 0, n = 0;
  for (float v : run.scores.row(0, 0)) {
    if (std::isnan(v)) continue;
    ++n, below += v<range.lo, above += v> range.hi;
  }
  CHECK(range.lo < range.hi);
  CHECK(below <= 0.02 * n + 1);
  CHECK(above <= 0.02 * n + 1);
  const ScoreRange none = score_range(random_run(12, {.policy = "streaming:sinks=4,window=60", .scorer = false}), 0, 0);
  CHECK(none.lo == 0);
  CHECK(none.hi == 1);
}

TEST_CASE("two runs are compared token by token only as far as they agree") {
  RunRecord a = random_run(1), b = a;
  CHECK(common_prefix(a, b) == a.n_tokens());
  b.ids[37] += 1;
  CHECK(common_prefix(a, b) == 37);
}

TEST_CASE("a caption names model, policy, definition, aggregation and that a preview is one") {
  const RunRecord a = random_run(1), b = random_run(2);
  const RunRecord* runs[] = {&a, &b};
  LayerHeadMapOptions options;
  options.preview = true;
  const std::string caption = layer_head_map_figure(runs, options, {}).caption;
  for (const char* part :
       {"random-model", "kvpop:budget=64", "Definition: ", "median of 2 runs", "Preview", "recorded scores"}) {
    CHECK_THAT(caption, Catch::Contains(part));
  }
  options.preview = false;
  CHECK_THAT(layer_head_map_figure(runs, options, {}).caption, !Catch::Contains("Preview"));
}

TEST_CASE("recall before the oracle saw everything is said to be so far") {
  RunRecord run = random_run(1);
  run.oracle_horizon = 50;
  const RunRecord* runs[] = {&run};
  LayerHeadMapOptions options;
  options.metric = Metric::recall;
  CHECK_THAT(layer_head_map_figure(runs, options, {}).caption, Catch::Contains("partial"));
}

TEST_CASE("a figure of nothing is refused with an error, not drawn") {
  const RunRecord empty;
  const RunRecord* runs[] = {&empty};
  CHECK_THROWS_AS(layer_head_map_figure(runs, {}, {}), Error);
  CHECK_THROWS_AS(token_strip_figure(empty, {}, {}), Error);
  CHECK_THROWS_AS(timeline_figure(empty, {}, {}), Error);
  const RunRecord run = random_run(1);
  CHECK_THROWS_AS(token_strip_figure(run, {.layer = 99}, {}), Error);
  CHECK_THROWS_AS(token_strip_figure(run, {.first = 100000}, {}), Error);
  CHECK_THROWS_AS(timeline_figure(run, {.layer = 0, .kv_head = 99}, {}), Error);
}

// What is painted: characters read from the glyphs of the draw lists and colours from their corners, not what a view
// says of its items.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"
#include "views/figure/lifeline_image.h"
#include "views/figure/timeline_figure.h"
#include "views/figure/token_strip_figure.h"
#include "views/figure/token_text.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/token_strip_view.h"
#include "views/widgets/imgui_compat.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// As it is painted: without blanks and the bars that the registry puts between the cells of a row, with the mark of a
/// character that the font lacks.
std::string dense(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (text.compare(start, 3, " | ") == 0) {
      at = start + 3;
    } else if (!has_glyph(ImGui::GetIO().FontDefault, static_cast<ImWchar>(c))) {
      out += "\uFFFD";
    } else if (c != ' ') {
      out.append(text, start, at - start);
    }
  }
  return out;
}

/// Compares every text of the registry whose item is on the screen with what is painted there. Returns how many.
template <typename ViewType>
int check_written(const Stage<ViewType>& s) {
  int n = 0;
  for (const std::string& id : s.window.items.ids()) {
    const auto text = s.window.items.text(id);
    const auto rect = s.window.items.find(id);
    if (!text || rect->w <= 0 || rect->y + rect->h > 890) continue;
    CAPTURE(id);
    CHECK(s.window.written_in(id) == dense(*text));
    ++n;
  }
  return n;
}

RunRecord under_policy(const char* policy) {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse(policy);
  return run;
}

RunRecord h2o_run() {
  RunRecord run = under_policy("h2o:budget=80,window=32");
  run.contests = {{.q = 130,
                   .newcomer = 129,
                   .boundary = 40,
                   .newcomer_effective = 0.987f,
                   .boundary_effective = 0.95f,
                   .evicted = 40}};
  run.evict_at.row(0, 0)[40] = 130;
  return run;
}

RunRecord passing_prompt(int n_queries) {
  RunRecord run = random_run(3);
  run.status = RunStatus::running;
  run.n_queries = n_queries;
  return run;
}

/// The number that stands in a cell of the map.
std::string cell_text(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", std::abs(value) < 0.005 ? 0.0 : value);
  return text[0] == '-' ? "−" + std::string(text + 1) : text;
}

std::string written_in_cell(const Stage<LayerHeadMapView>& s, int layer, int head) {
  return s.window.written_in("map.cell." + std::to_string(layer) + "." + std::to_string(head));
}

}  // namespace

// W5, W8, W9, W10, W11, W16, W17: their tests read the registry.
TEST_CASE("the texts that the inspector and the log give to tests are those that they paint") {
  const RunRecord run = GENERATE(random_run(3), random_run(3, {.policy = "full", .page_reads = true}), h2o_run(),
                                 passing_prompt(0), random_run(3, {.policy = "sp-kv:threshold=0.25,window=16"}),
                                 under_policy("expected-attention:budget=80"));
  const std::int32_t q = GENERATE(90, 150);
  CAPTURE(run.policy.to_string(), q);
  Stage<InspectorView> inspector(run, {.token = 30, .q = q});
  inspector.draw();
  // The mean over queries and the table of oracles come when they are computed.
  for (int i = 0; i < 1000 && inspector.text("inspector.mean recall").starts_with("..."); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    inspector.draw(1);
  }
  inspector.draw();  // a table lays itself out anew
  CHECK(check_written(inspector) > 15);
  Stage<CacheTimelineView> timeline(run, {.token = 30, .q = q});
  timeline.draw();
  CHECK(check_written(timeline) >= 1);
}

// W10: a newcomer beside a boundary, as if they were rivals.
TEST_CASE("the columns of the log have the names of what its policy compares") {
  const auto header = [](RunRecord run) {
    Stage<CacheTimelineView> s(std::move(run), {.q = 0});
    s.draw();
    ItemRect row = *s.window.items.find("timeline.contest.0");
    const float height = row.h + 8;
    row.y -= height, row.h = height;
    return s.window.written_in(row);
  };
  CHECK_THAT(header(h2o_run()), StartsWith("queryenteredevictedsumofattentionnextlowestoracle"));
  CHECK_THAT(header(random_run(3)), StartsWith("querynewcomerboundaryevictedmarginoracle"));
  CHECK_THAT(header(random_run(3, {.policy = "sp-kv:threshold=0.25,window=16"})),
             StartsWith("querytokendecisionoracle"));
}

// W4.
TEST_CASE("the cells of B - A of recall have the difference by one oracle written in them") {
  const RunRecord a = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  const RunRecord b = random_run(3, {.policy = "kvpop:budget=120,sinks=4,window=16"});
  Stage<LayerHeadMapView> s(a, {.q = 150, .metric = Metric::recall});
  s.compare_with(b);
  s.draw();
  s.window.click("map.compare.2", [&] { s.view.draw(s.context); });
  OracleSpec spec = a.oracle;
  spec.budget = OracleSpec::Budget{40, false};
  const Oracle of_a(a, spec, a, 4, 16), of_b(b, spec, a, 4, 16);
  const auto difference = [&](int head) {
    return of_b.counts(head / 3, head % 3, 150).recall() - of_a.counts(head / 3, head % 3, 150).recall();
  };
  // The picture of A | B may stand for some frames yet.
  for (int i = 0; i < 1000 && written_in_cell(s, 0, 0) != cell_text(difference(0)); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  CHECK(s.window.written_in("map.common_oracle") == dense(s.text("map.common_oracle")));
  for (int head = 0; head < 6; ++head) {
    CAPTURE(head);
    CHECK(std::abs(difference(head)) > 0.05);
    CHECK(written_in_cell(s, head / 3, head % 3) == cell_text(difference(head)));
  }
}

// W17: near saturation a recall of chance was painted like a good one, and the mean over queries was nowhere.
TEST_CASE("the map's cells have mean recall, recall above chance, mass kept and read share written in them") {
  const RunRecord run = random_run(3, {.page_reads = true});
  const Oracle oracle(run);
  constexpr Metric kMetrics[] = {Metric::mean_recall, Metric::above_chance, Metric::mass_kept, Metric::read_share};
  for (int i = 0; i < 4; ++i) {
    Stage<LayerHeadMapView> s(run, {.q = 150, .metric = kMetrics[i]});
    s.draw();
    for (int head = 0; head < 6; ++head) {
      CAPTURE(i, head);
      double recall = 0, chance = 0;
      int n = 0;
      for (std::int32_t q = 0; q <= 150; ++q) {
        const OracleCounts at = oracle.counts(head / 3, head % 3, q);
        if (at.chosen) recall += at.recall(), chance += at.chance(), ++n;
      }
      const HeadReads reads(run, head / 3, head % 3, 150);
      const double expected[] = {recall / n, (recall / n - chance / n) / (1 - chance / n),
                                 oracle.counts(head / 3, head % 3, 150).mass_kept(),
                                 static_cast<double>(reads.n_read()) / reads.n_kept()};
      CHECK(written_in_cell(s, head / 3, head % 3) == cell_text(expected[i]));
    }
  }
}

// W5.
TEST_CASE("while the prompt passes no cell of the map has a number and no token of the timeline a fate") {
  for (const Metric metric : {Metric::density, Metric::evict_ratio, Metric::cache_share, Metric::recall}) {
    Stage<LayerHeadMapView> map(passing_prompt(0), {.metric = metric});
    map.draw();
    // A map that is hatched all over has its note on it: nothing else is written there.
    const std::string note = dense(map.text("map.no_value"));
    for (int head = 0; head < 6; ++head) {
      const std::string written = written_in_cell(map, head / 3, head % 3);
      std::size_t at = 0;
      for (const char c : note) at += at < written.size() && c == written[at] ? 1 : 0;
      CHECK(at == written.size());
    }
  }

  const RunRecord half = passing_prompt(100);
  const Image image = lifeline_image(half, 0, 1, 4096, false);
  for (int t = 0; t < image.rows; ++t) {
    for (int q = t; q < image.columns; ++q) {
      const Colour pixel = image.pixels[static_cast<std::size_t>(image.rows - 1 - t) * image.columns + q];
      CAPTURE(t, q);
      if (t < 100) REQUIRE(pixel.a == 255);  // as the last query that was made left it
      if (t >= 100) REQUIRE(pixel.a == 0);
    }
  }
}

// W8.
TEST_CASE("the lifelines of a policy that selects pages have another colour where a query does not read") {
  const RunRecord run = random_run(3, {.policy = "full", .page_reads = true});
  const Image image = lifeline_image(run, 1, 2, 4096, false);
  const Colour unread = state_colour(TokenState::unread, false);
  int n_unread = 0;
  for (std::int32_t q = 0; q < run.queries(); ++q) {
    const auto read =
        std::ranges::find_if(run.reads, [&](const PageRead& r) { return r.q == q && r.layer == 1 && r.kv_head == 2; });
    for (std::int32_t t = 0; t <= q; ++t) {
      const bool is_read = read == run.reads.end() || std::ranges::count(read->pages, t / 16) > 0;
      CAPTURE(q, t);
      REQUIRE((image.pixels[static_cast<std::size_t>(image.rows - 1 - t) * image.columns + q] == unread) == !is_read);
      n_unread += !is_read;
    }
  }
  CHECK(n_unread > 1000);
}

TEST_CASE("the strip paints a token of the state that its query sees, and none of an undecided one") {
  const RunRecord run = GENERATE(random_run(3, {.policy = "full", .page_reads = true}), passing_prompt(0),
                                 passing_prompt(100), random_run(3), h2o_run());
  const std::int32_t q = GENERATE(90, 150);
  CAPTURE(run.policy.to_string(), run.n_queries, q);
  Stage<TokenStripView> s(run, {.layer = 1, .kv_head = 2, .q = q});
  s.draw();
  const Theme& theme = s.window.theme;
  const RetentionGeometry g = run.geometry();
  const std::int32_t made = run.status == RunStatus::running ? std::min(q, run.n_queries - 1) : q;
  const auto read =
      std::ranges::find_if(run.reads, [&](const PageRead& r) { return r.q == q && r.layer == 1 && r.kv_head == 2; });
  constexpr TokenState kStates[] = {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted,
                                    TokenState::unread};
  for (int t = 0; t <= q; ++t) {
    CAPTURE(t);
    TokenState expected = token_state(made, t, run.evict_at.row(1, 2)[static_cast<std::size_t>(t)], g.n_sink, g.window);
    if (read != run.reads.end() && std::ranges::count(read->pages, t / 16) == 0) expected = TokenState::unread;
    if (t > made) expected = TokenState::undecided;
    const std::set<std::uint32_t> painted = s.window.colours_in("strip.token." + std::to_string(t));
    for (const TokenState state : kStates) {
      const Colour fill = mix(theme.palette.panel, state_colour(state, theme.dark), theme.dark ? 0.62 : 0.5);
      CHECK(painted.contains(to_imgui(fill)) == (state == expected));
    }
  }
}

// W14: in the window it was repaired, the figure that was exported from it went on colouring sinks and window.
TEST_CASE("in the mode of heads only what a policy chose is coloured, in the strip and in its figure") {
  const RunRecord run = random_run(3);
  Stage<TokenStripView> s(run, {.q = 150, .colour = ColourMode::kept_heads});
  s.draw();
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  const BuiltFigure built = token_strip_figure(run, std::get<TokenStripOptions>(figure->options), {});
  CHECK_THAT(built.caption, Contains("Hatched: sinks and window, always kept."));
  std::vector<Colour> pixels;
  for (const Primitive& item : built.figure.items) {
    if (const auto* image = std::get_if<Image>(&item))
      pixels.insert(pixels.end(), image->pixels.begin(), image->pixels.end());
  }
  REQUIRE(pixels.size() >= 151);
  std::set<std::uint32_t> scale;
  for (int k = 0; k <= 3; ++k) scale.insert(to_imgui(sample(Colormap::viridis, k / 3.0)));
  for (int t = 0; t <= 150; ++t) {
    CAPTURE(t);
    int kept = 0;
    for (int head = 0; head < 3; ++head) kept += visible(150, t, run.evict_at.row(0, head)[t]);
    const bool by_rule = t < 4 || t > 150 - 16;
    const Colour expected = sample(Colormap::viridis, kept / 3.0);
    CHECK(pixels[static_cast<std::size_t>(t)] == (by_rule ? Colour{0, 0, 0, 0} : expected));
    std::set<std::uint32_t> painted;
    for (const std::uint32_t colour : s.window.colours_in("strip.token." + std::to_string(t))) {
      if (scale.contains(colour)) painted.insert(colour);
    }
    CHECK(painted == (by_rule ? std::set<std::uint32_t>() : std::set<std::uint32_t>{to_imgui(expected)}));
  }
}

// W7: the window's label had both policies, the caption of its figures the first alone.
TEST_CASE("the caption of a figure of a run that was changed names the policy that held afterwards") {
  const RunRecord run = random_run(3, {.n_changes = 1});
  const BuiltFigure built = timeline_figure(run, {}, {});
  CHECK_THAT(built.caption, Contains(", changed at query 120 to " + run.changes[0].policy.to_string()));
}

// The review's: 66 tokens of 436 asked for, "(109 tokens = 25 % of 436, 4x)" in its caption, and nothing was evicted.
TEST_CASE("the caption of a run that ended early says how long it became, and that nothing was evicted") {
  RunRecord run = random_run(3, {.policy = "full"});
  CHECK_THAT(timeline_figure(run, {}, {}).caption, !Contains("nothing was evicted"));  // no policy that could
  run.n_positions = 900;
  run.policy = PolicySpec::parse("kvpop:keep=25%,sinks=4,window=200");
  const std::string asked = "(225 tokens = 25 % of 900, 4x; 900 were asked for, the run ended after 180";
  CHECK_THAT(timeline_figure(run, {}, {}).caption, Contains(asked + "; nothing was evicted)"));
  CHECK_THAT(token_strip_figure(run, {}, {}).caption,
             Contains("Hatched: all of these tokens are sinks or in the window, always kept.") && Contains(asked));
  run.policy = PolicySpec::parse("kvpop:keep=25%,sinks=4,window=16");
  CHECK_THAT(token_strip_figure(run, {.evictable_only = false}, {}).caption,
             Contains("Hatched: sinks and window, always kept."));
  run.evict_at.row(0, 1)[20] = 150;
  CHECK_THAT(timeline_figure(run, {}, {}).caption, Contains(asked + ")"));
  run.n_positions = run.n_tokens();
  CHECK_THAT(timeline_figure(run, {}, {}).caption, Contains("(45 tokens = 25 % of 180, 4x)"));
  run.policy = PolicySpec::parse("sp-kv"), run.evict_at.row(0, 1)[20] = kNever;
  CHECK_THAT(timeline_figure(run, {}, {}).caption, Contains("(nothing was evicted)"));
}

TEST_CASE(
    "The card of a token says once that it was evicted, and both where what it is and what becomes of it differ") {
  Stage<TokenStripView> s(random_run(3), {.q = 150});
  s.draw();
  const HeadAtQuery head(*s.a.run, 0, 0, 150);
  int n_evicted = 0, n_others = 0;
  for (int token = 0; token < 150 && n_evicted + n_others < 40; token += 3) {
    const ItemRect rect = *s.window.items.find("strip.token." + std::to_string(token));
    ImGui::GetIO().MousePos = {rect.centre_x(), rect.centre_y()};
    s.draw(2);
    const std::string life = life_line(*s.a.run, 0, 0, token), said = s.text("strip.card");
    CAPTURE(token);
    if (head.state(token) == TokenState::evicted) {
      CHECK(said == life);
      CHECK_THAT(said, Catch::StartsWith("evicted at "));
      ++n_evicted;
    } else {
      CHECK_THAT(said, Catch::EndsWith(life));
      ++n_others;
    }
  }
  CHECK(n_evicted > 0);
  CHECK(n_others > 0);
}

TEST_CASE("The legend of the layers has what the rule keeps hatched, as the picture has it") {
  Stage<TokenStripView> s(random_run(3), {.q = 150});
  s.draw();
  CHECK_FALSE(s.has("layers.swatch"));
  s.selection.layers = true;
  s.draw();
  const ItemRect label = *s.window.items.find("strip.legend.always kept: sinks and window");
  const auto swatch = s.window.items.find("layers.swatch");
  REQUIRE(swatch);
  CHECK(swatch->x + swatch->w <= label.x);
  CHECK(swatch->x + swatch->w >= label.x - 10);
  CHECK(swatch->y >= label.y);
  CHECK(swatch->y + swatch->h <= label.y + label.h);
  CHECK(s.window.colours_in("layers.swatch").contains(to_imgui(s.window.theme.palette.muted)));
}

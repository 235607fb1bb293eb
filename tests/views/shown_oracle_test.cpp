// What is drawn of the oracle and of runs that ended badly is true: verdicts, recall and density as they stand on the
// screen, against counts of the definition.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/study/measure/oracle.h"
#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/token_strip_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

/// What the map says of a cell that the mouse is over.
std::string hovered_cell(Stage<LayerHeadMapView>& s, int layer, int head, const char* item = "map.hover") {
  std::string found = "(not drawn)";
  s.draw();
  s.window.click("map.cell." + std::to_string(layer) + "." + std::to_string(head), [&] {
    s.view.draw(s.context);
    found = s.window.items.text(item).value_or(found);
  });
  return found;
}

/// Of a head at q, by the definition: |P|, |E|, and how many of P are among the |P| best of E by future mass.
struct Counted {
  int kept = 0, eligible = 0, hits = 0;
};
Counted count(const RunRecord& run, int layer, int head, int q) {
  Counted out;
  std::vector<std::pair<float, int>> ranked;
  const RetentionGeometry g = run.geometry();
  const auto& evict_at = run.evict_at.row(layer, head);
  for (int t = g.n_sink; t <= q - g.window; ++t) {
    out.kept += visible(q, t, evict_at[static_cast<std::size_t>(t)]);
    ranked.emplace_back(-run.future_mass.row(layer, head)[static_cast<std::size_t>(t)], t);
  }
  std::ranges::sort(ranked);
  out.eligible = static_cast<int>(ranked.size());
  for (int i = 0; i < out.kept; ++i) {
    const int t = ranked[static_cast<std::size_t>(i)].second;
    out.hits += visible(q, t, evict_at[static_cast<std::size_t>(t)]);
  }
  return out;
}

}  // namespace

// W1: recall was density in all heads, every eviction wrong, and the strip had only "kept, as the oracle" and "missed".
TEST_CASE("of a policy without a budget the map shows recall against as many tokens as it keeps, not its density") {
  const RunRecord run = random_run(3, {.policy = "sp-kv:threshold=0.1,window=16"});
  Stage<LayerHeadMapView> s(run, {.q = 179, .metric = Metric::recall});
  for (int head = 0; head < 3; ++head) {
    const Counted c = count(run, 1, head, 179);
    REQUIRE(c.kept > 0);
    REQUIRE(c.kept < c.eligible);
    const double recall = static_cast<double>(c.hits) / c.kept;
    CHECK_THAT(hovered_cell(s, 1, head), EndsWith(" " + format_number(recall, 4)));
    CHECK(std::abs(recall - static_cast<double>(c.kept) / c.eligible) > 0.05);  // which it was by construction
  }
}

TEST_CASE("the strip's oracle colours have all four verdicts of a threshold, as many as the oracle's choice has") {
  const RunRecord run = random_run(3, {.policy = "sp-kv:threshold=0.1,window=16"});
  Stage<TokenStripView> s(run, {.layer = 1, .kv_head = 1, .q = 179, .colour = ColourMode::oracle});
  s.draw();
  std::map<std::string, int> drawn;
  for (const std::string& id : s.window.items.ids()) {
    for (const char* name : {"kept_rightly", "kept_wrongly", "missed", "dropped_rightly", "unjudged"}) {
      if (id.starts_with(std::string("strip.") + name + ".")) ++drawn[name];
    }
  }
  const Counted c = count(run, 1, 1, 179);
  CHECK(drawn["kept_rightly"] == c.hits);
  CHECK(drawn["kept_wrongly"] == c.kept - c.hits);
  CHECK(drawn["missed"] == c.kept - c.hits);  // as many as it keeps wrongly: the oracle holds as many
  CHECK(drawn["dropped_rightly"] == c.eligible - 2 * c.kept + c.hits);
  CHECK(drawn["unjudged"] == 16);  // the window
  CHECK(drawn["dropped_rightly"] > 10);

  // The colours that are painted tell the same, token by token.
  constexpr std::pair<const char*, Verdict> kVerdicts[] = {{"kept_rightly", Verdict::kept_rightly},
                                                           {"kept_wrongly", Verdict::kept_wrongly},
                                                           {"missed", Verdict::missed},
                                                           {"dropped_rightly", Verdict::dropped_rightly}};
  const Theme& theme = s.window.theme;
  for (int t = 0; t < 180; ++t) {
    const std::set<std::uint32_t> painted = s.window.colours_in("strip.token." + std::to_string(t));
    CAPTURE(t);
    for (const auto& [name, verdict] : kVerdicts) {
      const Colour fill = mix(theme.palette.panel, verdict_colour(verdict, theme.dark), theme.dark ? 0.62 : 0.5);
      CHECK(painted.contains(to_imgui(fill)) == s.has("strip." + std::string(name) + "." + std::to_string(t)));
    }
  }
}

TEST_CASE("the inspector calls evictions of a threshold right where the oracle agrees, and wrong where not") {
  const RunRecord run = random_run(3, {.policy = "sp-kv:threshold=0.1,window=16"});
  int right = 0, wrong = 0;
  for (int t = 0; t < 60; ++t) {
    const std::int32_t at = run.evict_at.row(0, 0)[static_cast<std::size_t>(t)];
    if (at >= 180) continue;
    const VerdictOfEviction found = eviction_verdict(run, 0, 0, t);
    if (found.verdict == EvictionVerdict::unknown || found.by_quarter) continue;
    Stage<InspectorView> s(run, {.token = t, .q = 179});
    s.draw(2);
    const bool is_right = found.verdict == EvictionVerdict::right;
    CHECK_THAT(s.text("inspector.why"), Contains(is_right ? " Correct: " : " Wrong: "));
    ++(is_right ? right : wrong);
  }
  CHECK(right > 0);
  CHECK(wrong > 0);
}

// W1: "the oracle would have kept token 200 to the end: wrong eviction" of a head that keeps nothing by its rule.
TEST_CASE("a head that keeps nothing is judged by a quarter of the run, and the sentence says so") {
  RunRecord run = random_run(3, {.policy = "streaming:sinks=0,window=16"});
  Stage<InspectorView> s(run, {.token = 60, .q = 179});
  s.draw();
  CHECK_THAT(s.text("inspector.why"), Contains("an oracle that keeps 25 % of the run's tokens"));
  CHECK(s.text("inspector.recall at q") == "–");
  Stage<LayerHeadMapView> map(run, {.q = 179, .metric = Metric::recall});
  CHECK_THAT(hovered_cell(map, 0, 0), EndsWith("no value"));
}

// W2: density 0 and evict ratio 1 stood in every head of a run whose engine had died, beside a strip full of kept tokens.
TEST_CASE("of a failed run the map and the inspector draw the numbers of a cancelled one") {
  RunRecord alive = random_run(3, {.policy = "kvpop:budget=64,sinks=4,window=16", .oracle = false});
  alive.status = RunStatus::running;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      for (std::int32_t& at : alive.evict_at.row(layer, head)) {
        if (at == kNever) at = kUndecided;  // nobody has said yet that they are kept
      }
    }
  }
  RunRecord failed = alive, cancelled = alive;
  failed.status = RunStatus::failed;
  finish_run(cancelled, RunStatus::cancelled);
  for (const Metric metric : {Metric::density, Metric::evict_ratio, Metric::cache_share}) {
    Stage<LayerHeadMapView> a(failed, {.metric = metric}), b(cancelled, {.metric = metric});
    const std::string drawn = hovered_cell(a, 1, 1);
    CHECK(drawn == hovered_cell(b, 1, 1));
    CHECK_THAT(drawn, !EndsWith(" 0") && !EndsWith(" 1") && !EndsWith("no value"));
  }
  Stage<InspectorView> a(failed, {.layer = 1, .kv_head = 1}), b(cancelled, {.layer = 1, .kv_head = 1});
  a.draw(), b.draw();
  const Counted c = count(random_run(3, {.policy = "kvpop:budget=64,sinks=4,window=16"}), 1, 1, 179);
  const double density = (c.kept + 4.0) / (c.eligible + 4.0);  // sinks count in it
  CHECK(a.text("inspector.Density") == format_number(density, 3));
  CHECK(a.text("inspector.Density") == b.text("inspector.Density"));
  CHECK(a.text("inspector.Evict ratio") == b.text("inspector.Evict ratio"));
}

// W11: mass recall 1.35 and regret -0.347 stood there while nothing competed.
TEST_CASE("inside a dense prefill mass recall, regret and verdict have no value, and the reason stands there") {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=80,window=32");
  Stage<InspectorView> s(run, {.token = 5, .q = 100});
  s.draw();
  CHECK(s.text("inspector.mass recall") == "–");
  CHECK(s.text("inspector.oracle at q") == "none: dense prompt until query 120");
  CHECK_THAT(s.text("inspector.why"), Contains(": the prompt is dense, and eviction starts at query 120."));
  for (const Metric metric : {Metric::mass_recall, Metric::regret, Metric::recall}) {
    Stage<LayerHeadMapView> map(run, {.q = 100, .metric = metric});
    CHECK_THAT(hovered_cell(map, 0, 0), EndsWith("no value"));
  }
}

// H2: a text that a replay had read under its policy from the first token on was called a dense prefill too, and what a
// dense prefill had measured was not called so.
TEST_CASE("what was measured densely says so, and a text that was read under the policy does not") {
  RunRecord dense = random_run(3, {.policy = "full"});
  dense.policy = PolicySpec::parse("h2o:budget=80,window=32");
  const auto drawn = [](const RunRecord& run, int token) {
    Stage<InspectorView> s(run, {.token = token, .q = std::max(token, 100)});
    s.draw();
    return std::array{s.text("inspector.log-probability"), s.text("inspector.oracle at q"), s.text("inspector.why")};
  };
  constexpr const char* kDense = ", dense: no policy yet";
  CHECK_THAT(drawn(dense, 60)[0], EndsWith(kDense));
  CHECK_THAT(drawn(dense, 120)[0], EndsWith(kDense));  // by the prompt's last query
  CHECK_THAT(drawn(dense, 121)[0], !EndsWith(kDense));
  CHECK(drawn(dense, 0)[0] == "none: the first token");

  RunRecord read = dense;
  read.prompt_len = read.n_tokens();
  read.evict_at.row(1, 2)[40] = 90;
  CHECK_THAT(drawn(read, 60)[0], !EndsWith(kDense));
  CHECK(drawn(read, 60)[1] == "(not drawn)");
  CHECK_THAT(drawn(read, 60)[2], !Contains("dense prefill"));
  CHECK_THAT(drawn(random_run(3), 60)[0], !EndsWith(kDense));  // KVpop acts in its prompt
}

// H13: SP-KV's rho leaves the window out of the kept tokens alone; nobody could see that ours leaves it out of both.
TEST_CASE("what a metric counts stands beside its number: density says that sinks count and the window does not") {
  const RunRecord run = random_run(3);  // four sinks, window 16
  Stage<LayerHeadMapView> s(run, {.q = 150, .metric = Metric::density});
  const Counted c = count(run, 1, 1, 150);
  CHECK_THAT(hovered_cell(s, 1, 1), EndsWith("Density " + format_number((c.kept + 4.0) / (c.eligible + 4.0), 4)));
  CHECK_THAT(
      hovered_cell(s, 1, 1, "map.hover_definition"),
      Contains("all tokens outside the window (t <= q - window)") && EndsWith("sinks count, the window does not"));
}

// The note took the map's room: the map moved under who scrubbed, and without room it was not counted again and the note stayed.
TEST_CASE("In a region of any height the map's note that no head has a value goes once heads have one") {
  Stage<LayerHeadMapView> s(random_run(3), {.metric = Metric::recall});
  // A count that is due again at once waits a little.
  const auto has_note = [&](std::int32_t q, float height, bool expected) {
    s.selection.q = q;
    for (int i = 0; i < 4 || (i < 200 && s.has("map.no_value") != expected); ++i) {
      s.window.frame([&] {
        ImGui::BeginChild("region", {260, height});
        s.view.draw(s.context);
        ImGui::EndChild();
      });
    }
    return s.has("map.no_value");
  };
  has_note(3, 600, true);  // so that there is a picture
  for (float height = 240; height <= 600; height += 20) {
    CAPTURE(height);
    CHECK(has_note(3, height, true));
    const ItemRect map = *s.window.items.find("map.cell.0.0");
    CHECK_FALSE(has_note(150, height, false));
    CHECK(s.window.items.find("map.cell.0.0")->y == map.y);
  }
}

// What is written and drawn is true: texts and marks of the views, as they stand on the screen.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/support/text.h"
#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/token_strip_view.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

/// The tokens of random_run(3) up to `from`, others behind.
RunRecord parting_run(int from) {
  RunRecord run = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  for (std::size_t t = static_cast<std::size_t>(from); t < run.ids.size(); ++t) run.ids[t] += 1;
  return run;
}

RunRecord under_policy(const char* policy) {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse(policy);
  return run;
}

}  // namespace

// W3: it drew the difference of unrelated cells in full colour.
TEST_CASE("where the tokens of A and B differ, the map refuses their difference and offers the replay") {
  Stage<LayerHeadMapView> s(random_run(3), {.q = 150});
  s.compare_with(parting_run(100));
  s.draw();
  CHECK(s.text("map.parted") == "Texts diverge at token 100: each map uses its own run's text.");
  CHECK(s.has("map.b.cell.0.0"));
  CHECK(s.view.figure(s.context));
  s.selection.map.compare = MapCompare::difference;
  s.draw();
  CHECK(s.text("map.refusal") == "Texts diverge at token 100: B − A has no value here.");
  CHECK_FALSE(s.has("map.cell.0.0"));
  CHECK_FALSE(s.view.figure(s.context));
  s.window.click("map.replay", [&] { s.view.draw(s.context); });
  CHECK(s.command == "run.replay_as_b");
  s.window.click("map.go_to_common", [&] { s.view.draw(s.context); });
  CHECK(s.selection.q == 99);  // below the first difference cells compare
  s.draw();
  CHECK_FALSE(s.window.items.text("map.refusal"));
  CHECK(s.has("map.cell.0.0"));
}

TEST_CASE("of texts that part each map is judged by its own run's oracle, and the shorter is at its last query") {
  const RunRecord a = random_run(3);
  RunRecord b = parting_run(100);
  for (const std::int32_t q : {90, 150}) {
    Stage<LayerHeadMapView> s(a, {.q = q});
    s.selection.metric = Metric::recall;
    s.compare_with(b);
    s.draw();
    const auto options = std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options);
    const RunRecord* const runs[] = {&a, &b};
    const LayerHeadMaps maps = layer_head_maps(runs, options);
    CHECK(maps.common_oracle.empty());
    CHECK(maps.parts[1].map.at(1, 0) == head_metric(b, Metric::recall, q).at(1, 0));
    CHECK(s.window.items.text("map.own_oracles").has_value() == (q == 90));
  }
  Stage<LayerHeadMapView> s(a, {.q = 170});
  b.ids.resize(160);
  s.compare_with(std::move(b));
  s.draw();
  CHECK_THAT(s.text("map.parted"), EndsWith("The shorter run is at its last query, 159."));
}

TEST_CASE("A and a shorter run of the same tokens are compared at the last query that both have") {
  Stage<LayerHeadMapView> s(random_run(3));
  RunRecord behind = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  behind.ids.resize(130);
  s.compare_with(std::move(behind));
  s.draw();
  CHECK(s.text("map.both_at") == "Compared at query 129, where the shorter run ends.");
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).q == 129);
}

TEST_CASE("the strip underlines B only at queries that both runs made over the same tokens") {
  Stage<TokenStripView> s(random_run(3), {.q = 99});
  s.compare_with(parting_run(100));
  s.draw();
  CHECK(s.has("strip.underlined.50"));
  CHECK(std::get<TokenStripOptions>(s.view.figure(s.context)->options).with_b);
  s.selection.q = 100;
  s.draw();
  CHECK_FALSE(s.has("strip.underlined.50"));
  CHECK_FALSE(std::get<TokenStripOptions>(s.view.figure(s.context)->options).with_b);
}

// W4: each run was judged by an oracle of its own size.
TEST_CASE("B - A of recall is by one oracle, which the header names with its chance") {
  const RunRecord a = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  const RunRecord b = random_run(3, {.policy = "kvpop:budget=120,sinks=4,window=16"});
  Stage<LayerHeadMapView> s(a, {.q = 150, .metric = Metric::recall});
  s.compare_with(b);
  s.draw();
  s.window.click("map.compare.2", [&] { s.view.draw(s.context); });
  s.draw(60);
  const auto chance = [](const RunRecord& run) {  // |P| / |E|, counted by hand
    double sum = 0;
    for (int head = 0; head < 6; ++head) {
      int kept = 0;
      for (int t = 4; t <= 150 - 16; ++t) kept += visible(150, t, run.evict_at.row(head / 3, head % 3)[t]);
      sum += kept / 131.0 / 6;
    }
    return sum;
  };
  char expected[160];
  std::snprintf(expected, sizeof expected,
                "shared oracle, k = 20 of 180 tokens, 40 with sinks and window; chance A %.2f, B %.2f", chance(a),
                chance(b));
  CHECK(s.text("map.common_oracle") == expected);

  const auto figure = s.view.figure(s.context);
  const RunRecord* runs[] = {&a, &b};
  const BuiltFigure built = layer_head_map_figure(runs, std::get<LayerHeadMapOptions>(figure->options), {});
  CHECK_THAT(built.caption, Contains(expected));
  OracleSpec spec = a.oracle;
  spec.budget = OracleSpec::Budget{40, false};
  const Oracle of_a(a, spec, a, 4, 16), of_b(b, spec, a, 4, 16);
  const auto& value = std::get<std::vector<double>>(built.data.columns[3].values);
  for (int head = 0; head < 6; ++head) {
    const double difference =
        of_b.counts(head / 3, head % 3, 150).recall() - of_a.counts(head / 3, head % 3, 150).recall();
    CHECK(value[static_cast<std::size_t>(head)] == Approx(difference).margin(1e-6));
  }
}

// W5: tokens of a prompt that was still passing were "kept".
TEST_CASE("while the prompt passes its tokens are drawn undecided and metrics have no value") {
  RunRecord run = random_run(3);
  run.status = RunStatus::running;
  run.n_queries = 0;
  Stage<TokenStripView> strip(run, {.token = 30});
  strip.draw();
  CHECK(strip.has("strip.outlined.0"));
  CHECK(strip.has("strip.outlined.30"));
  CHECK(strip.text("strip.legend.not decided yet") == "not decided yet");
  Stage<InspectorView> inspector(run, {.token = 30});
  inspector.draw();
  CHECK_THAT(inspector.text("inspector.why"), Contains("is undecided in"));
  CHECK_THAT(inspector.text("inspector.state"), StartsWith("not decided yet"));
  CHECK(inspector.text("inspector.Density") == "–");
  CHECK(inspector.text("inspector.recall at q") == "–");
  run.n_queries = 100;
  Stage<TokenStripView> half(run);
  half.draw();
  CHECK_FALSE(half.has("strip.outlined.30"));
  CHECK(half.has("strip.outlined.100"));
}

// W7: the inspector named the policy that the run began with.
TEST_CASE("a change in mid-run is flagged, and the inspector has the policy that holds at the query") {
  const RunRecord run = random_run(3, {.n_changes = 1});
  REQUIRE(run.changes[0].q == 120);
  const std::string budget = std::to_string(static_cast<int>(run.changes[0].policy.budget->value));
  CHECK(policy_history(run) == "64 tokens > " + budget + " tokens @ 120");
  Stage<InspectorView> inspector(run, {.q = 119});
  inspector.draw();
  const auto tokens = [](const PolicySpec& policy) { return number_text(policy.budget->value) + " tokens"; };
  CHECK(inspector.text("inspector.policy.budget") == tokens(run.policy));
  inspector.selection.q = 120;
  inspector.draw();
  CHECK(inspector.text("inspector.policy.budget") == tokens(run.changes[0].policy));

  Stage<TokenStripView> deck_stage(run);
  TimeDeck deck(deck_stage.window.services);
  deck_stage.window.frame([&] { deck.draw(deck_stage.context, 40); });
  CHECK(deck_stage.has("timeline.flag.0"));

  // The budget line: one height before, another one after.
  const auto lines = [](const RunRecord& of) {
    const Figure figure = timeline_figure(of, {}, {}).figure;
    int n = 0;
    for (const Primitive& item : figure.items) {
      const auto* line = std::get_if<Polyline>(&item);
      n += line != nullptr && line->dash > 0;
    }
    return n;
  };
  RunRecord unchanged = run;
  unchanged.changes.clear();
  CHECK(lines(run) == lines(unchanged) + 2);  // two levels and the step between them
}

// W8: all was "kept", as under a full cache.
TEST_CASE("a query that selects pages shows what it does not read, and what share it reads") {
  const RunRecord run = random_run(3, {.policy = "full", .page_reads = true});
  constexpr std::int32_t kQuery = 150;
  const auto read = std::ranges::find_if(
      run.reads, [](const PageRead& r) { return r.q == kQuery && r.layer == 1 && r.kv_head == 2; });
  REQUIRE(read != run.reads.end());
  Stage<TokenStripView> strip(run, {.layer = 1, .kv_head = 2, .q = kQuery});
  strip.draw();
  int n_read = 0;
  for (int t = 0; t <= kQuery; ++t) {
    const bool in_page = std::ranges::count(read->pages, t / 16) > 0;
    n_read += in_page;
    INFO(t);
    CHECK(strip.has("strip.unread." + std::to_string(t)) == !in_page);
  }
  Stage<InspectorView> inspector(run, {.layer = 1, .kv_head = 2, .token = 3, .q = kQuery});
  inspector.draw();
  CHECK(inspector.text("inspector.Read share") == format_number(n_read / 151.0, 3));
  CHECK_THAT(inspector.text("inspector.read by this query"),
             EndsWith(std::to_string(n_read) + " of 151 kept tokens read"));
}

// W9: "this head's cache never had to choose" stood for all of these.
TEST_CASE("the log says in the policy's own words why it lists no contest") {
  const auto note = [](RunRecord run) {
    Stage<CacheTimelineView> s(std::move(run));
    s.draw();
    return s.text("timeline.log_note");
  };
  CHECK_THAT(
      note(under_policy("snapkv:budget=80,window=32")),
      StartsWith(
          "At the end of the prompt, the tokens with the lowest scores are evicted together. The score is the attention "
          "from the prompt's last 32 tokens."));
  CHECK_THAT(note(under_policy("expected-attention:budget=80")),
             StartsWith("At the end of the prompt, the tokens with the lowest scores"));
  CHECK_THAT(note(under_policy("quest:read=64,dense=0")),
             Contains("each query of the answer reads 64 tokens in pages of 16"));
  CHECK_THAT(note(under_policy("quest:read=64,dense=1")),
             Contains("reads every token: this layer is one of the first 1, which"));
  CHECK_THAT(note(under_policy("quest:read=1024,dense=0")),
             Contains("reads every token: there are 180, and a query may read 1024."));
  CHECK_THAT(note(under_policy("full")), StartsWith("Nothing is evicted"));
  CHECK_THAT(note(random_run(3, {.policy = "streaming:window=60"})),
             Contains("All other tokens are evicted as they leave"));
  RunRecord hybrid = random_run(3, {.policy = "full"});
  hybrid.policy = PolicySpec::parse("hybrid:heads=a,window=32");
  test::make_local(hybrid, {1, 0, 0, 0, 0, 0});
  CHECK_THAT(note(hybrid), StartsWith("This head keeps ") && Contains("the newest 32 tokens. All other"));
}

// "nothing competes before the prompt ends" stood there in the middle of the answer.
TEST_CASE("what the log says of the prompt's end depends on whether the query comes before it") {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=180,window=32");
  run.contests.clear();
  Stage<CacheTimelineView> s(run, {.q = run.prompt_len - 1});
  s.draw();
  CHECK(s.text("timeline.log_note") ==
        "Nothing evicted yet. The head holds up to 180 tokens. Nothing is evicted before the prompt ends.");
  s.selection.q = run.prompt_len;
  s.draw();
  CHECK(s.text("timeline.log_note") == "Nothing evicted yet. The head holds up to 180 tokens.");
}

TEST_CASE("a log without rows says what left at once at the end of a dense prompt, not that nothing did") {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=90,window=32");
  run.contests.clear();
  for (int t = 0; t < 31; ++t) run.evict_at.row(0, 0)[static_cast<std::size_t>(t)] = run.prompt_len;
  run.evict_at.row(0, 1)[7] = run.prompt_len;
  run.evict_at.row(0, 2)[7] = run.prompt_len + 3, run.evict_at.row(0, 2)[8] = run.prompt_len + 5;
  const auto note = [&](int kv_head, std::int32_t q) {
    Stage<CacheTimelineView> s(run, {.kv_head = kv_head, .q = q});
    s.draw();
    return s.text("timeline.log_note");
  };
  const std::string cut =
      " evicted at query 120, when the dense prompt was cut to the budget. Such evictions have no row.";
  CHECK(note(0, 130) == "31 tokens" + cut);
  CHECK(note(0, 60) == "31 tokens" + cut);
  CHECK(note(1, 130) == "1 token" + cut);
  CHECK(note(2, 130) == "2 tokens evicted at queries 123 to 125: no decision was recorded.");
}

TEST_CASE("the log of a threshold has a row for each token with its score and what came of it") {
  const RunRecord run = random_run(3, {.policy = "sp-kv:threshold=0.25,window=16"});
  Stage<CacheTimelineView> s(run, {.q = 16});
  s.draw();
  CHECK(s.view.n_contests() == run.n_tokens() - 16);
  const std::string row = s.text("timeline.contest.0");
  const bool dropped = run.evict_at.row(0, 0)[0] == 16;
  CHECK_THAT(row, StartsWith("16 | 0 \""));
  CHECK_THAT(row, Contains("| u = ") && Contains(dropped ? " < tau 0.25" : " >= tau 0.25"));
  CHECK_THAT(row, Contains(dropped ? ": evict" : ": keep"));
}

// W10: newcomer and boundary stood as rivals, and the greater score lost.
TEST_CASE("the log of heavy hitters has who entered, who left as the least of how many, its sum and the next least") {
  RunRecord run = under_policy("h2o:budget=80,window=32");
  run.contests = {{.q = 130,
                   .newcomer = 129,
                   .boundary = 40,
                   .newcomer_effective = 0.987f,
                   .boundary_effective = 0.95f,
                   .evicted = 40},
                  {.q = 131,
                   .newcomer = 130,
                   .boundary = 41,
                   .newcomer_effective = NAN,  // of a trace that does not say it
                   .boundary_effective = 0.96f,
                   .evicted = 41}};
  run.evict_at.row(0, 0)[40] = 130;
  Stage<CacheTimelineView> s(run);
  s.draw();
  CHECK_THAT(s.text("timeline.contest.0"), StartsWith("130 | 129 \"") && Contains("(lowest of 49) | 0.95 | 0.987 | "));
  CHECK_THAT(s.text("timeline.contest.1"), Contains("(lowest of 49) | 0.96 | – | "));
}

TEST_CASE("the log of a pooled budget has what the head lost, its score, and the lowest that stayed in any head") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16,capacity=pooled"});
  Stage<CacheTimelineView> s(run, {.layer = 1, .kv_head = 2, .q = 120});
  s.draw();
  const auto first =
      std::ranges::find_if(run.contests, [](const Contest& c) { return c.layer == 1 && c.kv_head == 2; });
  REQUIRE(first != run.contests.end());
  CHECK(first->q == run.prompt_len);  // the prompt is dense, and most of it leaves at once
  const auto left = std::ranges::count(run.evict_at.row(1, 2), run.prompt_len);
  REQUIRE(left > 1);
  CHECK_THAT(s.text("timeline.contest.0"), StartsWith("120 | " + std::to_string(first->evicted) + " \"") &&
                                               Contains(" and " + std::to_string(left - 1) + " with lower scores | " +
                                                        format_number(first->boundary_effective, 4) + " | " +
                                                        format_number(first->newcomer_effective, 4)));
  CHECK(first->boundary_effective <= first->newcomer_effective);
  Stage<CacheTimelineView> none(random_run(3, {.policy = "kvpop:budget=180,sinks=4,window=16,capacity=pooled"}));
  none.draw();
  CHECK_THAT(none.text("timeline.log_note"),
             StartsWith("Nothing evicted yet. All heads share one pool (160 slots per head on average)"));
}

// W11: "other tokens had less attention" while nothing competed.
TEST_CASE("inside a dense prefill a token is kept because nothing is compressed yet") {
  const RunRecord run = under_policy("h2o:budget=80,window=32");
  Stage<CacheTimelineView> s(run, {.token = 5, .q = 100});
  s.draw();
  CHECK_THAT(s.text("timeline.why"), Contains(": the prompt is dense, and eviction starts at query 120."));
  Stage<InspectorView> inspector(run, {.token = 5, .q = 100});
  inspector.draw();
  CHECK(inspector.text("inspector.recall at q") == "–");
}

// W14: sinks and window were coloured like choices.
TEST_CASE("the mode of heads names the layer and outlines what the rule keeps") {
  Stage<TokenStripView> s(random_run(3), {.q = 150, .colour = ColourMode::kept_heads});
  s.draw();
  CHECK(s.text("strip.title") == "Layer 0, all 3 KV heads");
  CHECK(s.has("strip.outlined.0"));    // a sink
  CHECK(s.has("strip.outlined.150"));  // in the window
  CHECK_FALSE(s.has("strip.outlined.60"));
}

// W16: "not computed yet" of a score that never comes.
TEST_CASE("a policy without scores says so, one with scores says which are to come") {
  Stage<InspectorView> s(random_run(3, {.policy = "streaming:window=60", .scorer = false}), {.token = 20});
  s.draw();
  CHECK(s.text("inspector.score") == "this policy uses no scores");
  for (const char* policy :
       {"h2o:budget=80,window=32", "tova:budget=80", "hybrid:heads=a,window=32", "quest:read=64"}) {
    CAPTURE(policy);
    RunRecord run = under_policy(policy);
    run.scores = HeadSeries<float>();
    Stage<InspectorView> other(std::move(run), {.token = 20});
    other.draw();
    CHECK(other.text("inspector.score") == "this policy uses no scores");
  }
  Stage<InspectorView> scored(random_run(3), {.token = 175});
  scored.draw();
  CHECK(scored.text("inspector.score") == "not computed yet");
}

// W17: the paper's number, a mean over queries, could not be read off.
TEST_CASE("the inspector has recall at q and in the mean, chance, and every recorded oracle beside each other") {
  const RunRecord run = random_run(3);
  Stage<InspectorView> s(run, {.layer = 1, .kv_head = 1, .q = 150});
  for (int i = 0; i < 400 && !s.has("inspector.oracle.rms x output"); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Oracle oracle(run);
  const OracleCounts counts = oracle.counts(1, 1, 150);
  CHECK(s.text("inspector.recall at q") == format_number(counts.recall(), 3));
  CHECK(s.text("inspector.chance") == format_number(counts.chance(), 3));
  CHECK(s.text("inspector.k / eligible") == std::to_string(counts.capacity) + " / " + std::to_string(counts.eligible));
  double recall = 0;
  int n = 0;
  for (std::int32_t q = 0; q <= 150; ++q) {
    const OracleCounts at = oracle.counts(1, 1, q);
    if (at.chosen) recall += at.recall(), ++n;
  }
  CHECK(s.text("inspector.mean recall") == format_number(recall / n, 3) + " over " + std::to_string(n) + " queries");
  OracleSpec spec = run.oracle;
  spec.mass = OracleMass::rms, spec.weight = OracleWeight::output;
  const double of_head = Oracle(run, spec).counts(1, 1, 150).recall();
  spec.pooled = true;
  const double pooled = Oracle(run, spec).counts(1, 1, 150).recall();
  CHECK(s.text("inspector.oracle.rms x output") == format_number(of_head, 3) + " | " + format_number(pooled, 3));
}

// Its columns were sized by contents that no frame had laid out yet: one letter wide as the run ended.
TEST_CASE("the table of oracles stands in its first frame as in every later one") {
  Stage<InspectorView> s(random_run(3), {.layer = 1, .kv_head = 1, .q = 150});
  const auto table = [&] { return s.window.items.find("inspector.oracle.rms x output"); };
  for (int i = 0; i < 400 && !table(); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(table());
  const ItemRect first = *table();
  const std::string values = s.window.written_in("inspector.oracle.rms x output");
  s.draw(5);
  CHECK(first.x == table()->x);
  CHECK(first.y == table()->y);
  CHECK(values == s.window.written_in("inspector.oracle.rms x output"));
}

TEST_CASE("the map offers mean recall, recall above chance, mass kept and read share") {
  Stage<LayerHeadMapView> s(random_run(3));
  s.draw();
  const Metric expected[] = {Metric::mean_recall, Metric::above_chance, Metric::mass_kept, Metric::read_share};
  for (int i = 0; i < 4; ++i) {
    s.window.click("map.metric." + std::to_string(6 + i), [&] { s.view.draw(s.context); });
    CHECK(s.selection.metric == expected[i]);
  }
}

// The inspector: a policy in words, A beside B by one yardstick, and nothing that its scroll bar cuts off.

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/core/study/measure/common_oracle.h"
#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/inspector_view.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/marked_heads.h"
#include "views/widgets/scrolled.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

constexpr int kLayer = 1, kHead = 2, kToken = 30, kQuery = 150;

struct Pair {
  RunRecord a = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  RunRecord b = random_run(3, {.policy = "kvpop:budget=120,sinks=4,window=16"});
};

std::string number(double value) { return std::isnan(value) ? "–" : format_number(value, 3); }

/// Until what is computed beside the window has come.
void wait(Stage<InspectorView>& s) {
  for (int i = 0; i < 1000 && (!s.has("inspector.mean recall") || s.text("inspector.mean recall") == "..."); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  s.draw();
}

RunRecord with_other_tokens_from(RunRecord run, int first) {
  for (auto t = static_cast<std::size_t>(first); t < run.ids.size(); ++t) run.ids[t] += 1;
  return run;
}

}  // namespace

TEST_CASE("The inspector says a policy by its title and a line a parameter, its text is the hint") {
  Stage<InspectorView> s(random_run(3, {.policy = "kvpop:keep=0.6,sinks=4,window=16"}), {.token = kToken});
  s.draw();
  CHECK(s.text("inspector.policy") == find_policy("kvpop")->title);
  CHECK(s.text("inspector.policy.budget") == "60 %");
  CHECK(s.text("inspector.policy.sinks") == "4 tokens");
  CHECK(s.text("inspector.policy.window") == "16 tokens");
  const ItemRect row = *s.window.items.find("inspector.policy");
  ImGui::GetIO().MousePos = {row.centre_x(), row.centre_y()};
  s.draw();
  CHECK(s.text("hint") == s.a.run->policy.to_string());
  const ItemRect window = *s.window.items.find("inspector.policy.window");
  CHECK(s.window.written_in(ItemRect{0, window.y, window.x - 1, window.h}) == "Window");
}

TEST_CASE("Beside B the inspector's numbers have a second column, both by the oracle that the map judges them by") {
  const Pair runs;
  Stage<InspectorView> s(runs.a, {.layer = kLayer, .kv_head = kHead, .token = kToken, .q = kQuery});
  s.draw();
  CHECK_FALSE(s.has("inspector.Density.b"));
  s.compare_with(runs.b);
  wait(s);
  CHECK(s.text("inspector.of") == "A");
  CHECK(s.text("inspector.of.b") == "B");
  int n = 0;
  for (const MetricInfo& info : metric_list()) {
    if (info.needs_oracle) continue;
    CAPTURE(info.title);
    const std::string item = "inspector." + std::string(info.title);
    CHECK(s.text(item) == number(head_value(runs.a, info.metric, kLayer, kHead, kQuery)));
    CHECK(s.text(item + ".b") == number(head_value(runs.b, info.metric, kLayer, kHead, kQuery)));
    ++n;
  }
  CHECK(n > 3);
  CHECK(s.text("inspector.Density") != s.text("inspector.Density.b"));
  const auto common = CommonOracle::of(runs.a, runs.b);
  REQUIRE(common);
  const std::pair<const char*, Metric> judged[] = {
      {"recall at q", Metric::recall},      {"chance", Metric::chance},
      {"mass kept", Metric::mass_kept},     {"mass recall", Metric::mass_recall},
      {"mean recall", Metric::mean_recall}, {"recall above chance", Metric::above_chance}};
  for (const auto& [name, metric] : judged) {
    CAPTURE(name);
    const auto value = [&](const RunRecord& run) {
      return number(common->metric(run, metric, kQuery).at(kLayer, kHead));
    };
    const std::string item = std::string("inspector.") + name;
    CHECK_THAT(s.text(item), StartsWith(value(runs.a)));
    CHECK_THAT(s.text(item + ".b"), StartsWith(value(runs.b)));
  }
  CHECK(s.text("inspector.recall at q.b") != number(Oracle(runs.b).counts(kLayer, kHead, kQuery).recall()));
  const std::string judge = "A and B are judged by one " + common->note(runs.a, runs.b, kQuery) + " (mean over heads).";
  CHECK_THAT(s.text("inspector.judge"), StartsWith(judge));
  CHECK_THAT(s.text("inspector.judge"), Contains("a mass recall above 1"));  // B keeps 120 tokens, the oracle 40
}

// The same "recall" was 0.429 alone and 0.188 beside a preview, and nothing at the number said why.
TEST_CASE(
    "The inspector's recalls name their oracle and its tokens, and the run's is by its own whatever is beside it") {
  const Pair runs;
  Stage<InspectorView> s(runs.a, {.layer = kLayer, .kv_head = kHead, .token = kToken, .q = kQuery});
  wait(s);
  const auto wait_for_run = [&] {
    for (int i = 0; i < 1000 && !s.has("inspector.run recall"); ++i) {
      s.draw(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  wait_for_run();
  CHECK(s.text("inspector.recall at q.name") == "recall at q (own oracle, k = 20)");
  CHECK(s.text("inspector.mean recall.name") == "mean recall (own oracle, k = 20)");
  CHECK(s.text("inspector.run recall.name") == "recall (own oracle, k = 20)");
  const std::string recall = number(mean_of(Oracle(runs.a)).recall);
  CHECK(s.text("inspector.run recall") == recall);
  CHECK(s.text("inspector.Density.name") == "Density (incl. sinks)");
  CHECK(s.text("inspector.Evict ratio.name") == "Evict ratio (without sinks)");
  s.compare_with(runs.b);
  s.draw(1);
  wait(s);
  wait_for_run();
  CHECK(s.text("inspector.recall at q.name") == "recall at q (shared oracle)");
  CHECK(s.text("inspector.run recall.name") == "recall (own oracles, k = 20 | 100)");
  CHECK(s.text("inspector.run recall") == recall);
  CHECK(s.text("inspector.run recall.b") == number(mean_of(Oracle(runs.b)).recall));
  CHECK(s.text("inspector.run above chance.b") == number(mean_of(Oracle(runs.b)).above_chance()));
  const ItemRect row = *s.window.items.find("inspector.recall at q.b");
  ImGui::GetIO().MousePos = {row.centre_x(), row.centre_y()};
  s.draw(3);
  CHECK_THAT(s.text("hint"), StartsWith("recall at q (shared oracle, k = 20) of this head."));
}

// They were A's by its own oracle, beside a map and a head that the common one judges.
TEST_CASE("Beside B the means of the marked heads are of both runs, by the oracle that the map judges them by") {
  const Pair runs;
  const HeadSet heads{{kLayer, kHead}, {0, 0}, {0, 1}, {0, 2}, {1, 0}};
  Stage<InspectorView> s(runs.a,
                         {.layer = kLayer, .kv_head = kHead, .q = kQuery, .metric = Metric::recall, .heads = heads});
  const auto wait_for = [&](const char* item) {
    for (int i = 0; i < 1000 && !s.has(item); ++i) {
      s.draw(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  const std::string title = "Oracle recall";
  wait_for("inspector.marked Oracle recall");
  CHECK(s.text("inspector.marked Oracle recall") ==
        number(mean_over(head_metric(runs.a, Metric::recall, kQuery), heads)));
  CHECK_FALSE(s.has("inspector.marked_b Oracle recall"));
  s.compare_with(runs.b);
  wait_for("inspector.marked_b Oracle recall");
  const auto common = CommonOracle::of(runs.a, runs.b);
  REQUIRE(common);
  for (const auto& [run, item] : {std::pair{&runs.a, "inspector.marked "}, {&runs.b, "inspector.marked_b "}}) {
    const HeadMap map = common->metric(*run, Metric::recall, kQuery);
    CHECK(s.text(item + title) == number(mean_over(map, heads)));
    CHECK(s.text(item + title + ".b") == number(mean(map)));
    CHECK(s.text(std::string(item) + "Density") ==
          number(mean_over(head_metric(*run, Metric::density, kQuery), heads)));
  }
  CHECK(s.text("inspector.marked_b Oracle recall") !=
        number(mean_over(head_metric(runs.b, Metric::recall, kQuery), heads)));
  CHECK(s.text("inspector.marked.of") == "marked");
  CHECK(s.text("inspector.marked_b.of.b") == "all heads");
  s.selection.heads = HeadSet{{kLayer, kHead}};
  s.draw(1);
  wait_for("inspector.marked_b Oracle recall");
  CHECK_THAT(s.text("inspector.recall at q"), StartsWith(s.text("inspector.marked Oracle recall")));
}

TEST_CASE("Beside B the inspector's policy is A's by name, B's in a column of its own, and so is what A's has not") {
  Stage<InspectorView> s(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}),
                         {.layer = kLayer, .kv_head = kHead, .token = kToken, .q = kQuery});
  s.compare_with(random_run(3, {.policy = "threshold:threshold=0.2,sinks=2,window=8"}));
  s.draw();
  CHECK(s.text("inspector.policy") == "A: " + std::string(find_policy("kvpop")->title));
  CHECK(s.text("inspector.policy.b") == "B: " + std::string(find_policy("threshold")->title));
  CHECK(s.text("inspector.policy.window") == "16 tokens");
  CHECK(s.text("inspector.policy.window.b") == "8 tokens");
  CHECK(s.text("inspector.policy.budget") == "40 tokens");
  CHECK(s.text("inspector.policy.budget.b") == "–");
  CHECK(s.text("inspector.policy.threshold") == "–");
  CHECK_FALSE(s.text("inspector.policy.threshold.b") == "(not drawn)");
  CHECK_THAT(s.window.written_in(ItemRect{0, 0, 1600, 900}), Contains("Token,inA"));
  const ItemRect row = *s.window.items.find("inspector.policy.b");
  ImGui::GetIO().MousePos = {row.centre_x(), row.centre_y()};
  s.draw();
  CHECK(s.text("hint") == "A: " + s.a.run->policy.to_string() + "\nB: " + s.b.run->policy.to_string());
}

// "oracle: dropped" beside "the oracle would have kept it" read like a contradiction.
TEST_CASE("Each verdict of the oracle comes with the query that it is about: the one shown, and that of the eviction") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  int n_two = 0, n_apart = 0;
  for (int t = 4; t < 120; ++t) {
    const std::int32_t at = run.evict_at.row(kLayer, kHead)[static_cast<std::size_t>(t)];
    if (at >= kQuery) continue;
    const VerdictOfEviction found = eviction_verdict(run, kLayer, kHead, t);
    const Verdict now = HeadAtQuery(run, kLayer, kHead, kQuery).verdict(t);
    if (found.verdict == EvictionVerdict::unknown || now == Verdict::none) continue;
    const bool would_have = found.verdict == EvictionVerdict::wrong;
    ++n_two, n_apart += would_have != (now == Verdict::missed);
    Stage<InspectorView> s(run, {.layer = kLayer, .kv_head = kHead, .token = t, .q = kQuery});
    s.draw();
    const std::string eviction = "at its eviction, query " + std::to_string(at) + ", ";
    CHECK(s.text("inspector.oracle") ==
          std::string(verdict_name(now)) + " at query 150; " + eviction +
              (would_have ? "the oracle would have kept it" : "the oracle would have evicted it too"));
    CHECK_THAT(s.text("inspector.why"), Contains(would_have ? " Wrong: " : " Correct: "));
    if (n_apart > 2) break;
  }
  CHECK(n_two > 2);
  CHECK(n_apart > 0);
  Stage<InspectorView> kept(run, {.layer = kLayer, .kv_head = kHead, .token = kQuery - 2, .q = kQuery});
  kept.draw();
  CHECK(kept.text("inspector.oracle") == "no choice needed at query 150");
}

TEST_CASE("In a narrow inspector no word of the two policies is broken") {
  Stage<InspectorView> s(random_run(3, {.policy = "streaming:sinks=4,window=60"}),
                         {.layer = kLayer, .kv_head = kHead, .q = kQuery}, {270, 900});
  s.compare_with(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}));
  s.draw();
  REQUIRE(s.text("inspector.policy") == "A: StreamingLLM");
  CHECK(s.text("inspector.policy.b") == "B: KVpop running top-k");
  const float line = ImGui::GetTextLineHeight();
  for (const char* item : {"inspector.policy", "inspector.policy.b"}) CHECK(s.window.items.find(item)->h < 1.5f * line);
}

TEST_CASE("The common oracle of the inspector is the map's whichever of the two is the teacher") {
  const RunRecord narrow = random_run(3, {.policy = "streaming:sinks=4,window=40"});
  const RunRecord wide = random_run(3, {.policy = "kvpop:budget=90,sinks=8,window=24"});
  RunRecord without = wide;
  without.future_mass = {}, without.oracle_horizon = 0;
  for (const auto& [a, b] : {std::pair{narrow, wide}, {wide, narrow}, {without, narrow}, {narrow, without}}) {
    Stage<InspectorView> s(a, {.layer = kLayer, .kv_head = kHead, .q = kQuery});
    s.compare_with(b);
    s.draw();
    const auto common = CommonOracle::of(a, b);
    REQUIRE(common);
    for (const auto& [name, metric] : {std::pair{"recall at q", Metric::recall}, {"mass kept", Metric::mass_kept}}) {
      CAPTURE(name, a.policy.to_string(), b.policy.to_string());
      const std::string item = std::string("inspector.") + name;
      CHECK(s.text(item) == number(common->metric(a, metric, kQuery).at(kLayer, kHead)));
      CHECK(s.text(item + ".b") == number(common->metric(b, metric, kQuery).at(kLayer, kHead)));
    }
  }
}

TEST_CASE("The inspector says what became of the token in B, where B has the same one") {
  const Pair runs;
  Stage<InspectorView> s(runs.a, {.layer = kLayer, .kv_head = kHead, .token = kToken, .q = kQuery});
  s.compare_with(with_other_tokens_from(runs.b, 100));
  wait(s);
  CHECK(s.text("inspector.in B") == life_line(runs.b, kLayer, kHead, kToken));
  CHECK(s.text("inspector.judge") == "A and B have different text, so each is judged by its own oracle.");
  CHECK(s.text("inspector.recall at q.b") == number(Oracle(*s.b.run).counts(kLayer, kHead, kQuery).recall()));
  s.selection.token = 100;
  s.draw();
  CHECK_FALSE(s.has("inspector.in B"));
}

TEST_CASE("Of a B with other heads the inspector has no column") {
  const Pair runs;
  Stage<InspectorView> s(runs.a, {.token = kToken});
  s.compare_with(random_run(3, {.n_layers = 3}));
  s.draw();
  CHECK_FALSE(s.has("inspector.Density.b"));
  CHECK_FALSE(s.has("inspector.in B"));
}

TEST_CASE("What is scrolled in a card ends before the bar, and so does a frame around it") {
  HeadlessWindow window;
  const Theme& theme = window.theme;
  float right = 0, clip = 0, frame = 0;
  for (int i = 0; i < 4; ++i) {
    window.frame([&] {
      ImGui::BeginChild("card", {294, 400});
      {
        const Scrolled scrolled(theme, "inspector", 294, theme.px(14));
        ImGui::Dummy({1, 1000});
        right = views::right_edge_on_screen();
        clip = ImGui::GetWindowDrawList()->GetClipRectMax().x;
        frame = right + theme.px(5 + 1.5f / 2);
        CHECK((i == 0 || ImGui::GetScrollMaxY() > 0));
      }
      ImGui::EndChild();
    });
  }
  CHECK(right <= clip);
  CHECK(frame <= clip);
  CHECK(clip - right < theme.px(10));
}

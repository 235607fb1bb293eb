// What a page shows in headless Chromium, against the measures of core.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>

#include "app/page/run_page.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_facts.h"

using namespace kvscope;
using kvscope::test::TemporaryFolder;

namespace {

/// Empty if there is none. KVSCOPE_CHROMIUM names another one.
std::string chromium() {
  const char* named = std::getenv("KVSCOPE_CHROMIUM");
  for (const std::string& program :
       {std::string(named ? named : ""), std::string("chromium"), std::string("google-chrome")}) {
    if (!program.empty() && test::run({.argv = {"/usr/bin/env", program, "--version"}}).exit_code == 0) return program;
  }
  return {};
}

/// The document after its scripts have run.
std::string shown(const TemporaryFolder& folder, const std::string& page, const std::string& choice) {
  const std::string path = (folder / "page.html").string();
  std::ofstream(path) << page;
  const auto result = test::run({.argv = {"/usr/bin/env", chromium(), "--headless", "--no-sandbox", "--disable-gpu",
                                          "--user-data-dir=" + (folder / "profile").string(),
                                          "--virtual-time-budget=20000", "--dump-dom", "file://" + path + "#" + choice},
                                 .timeout = 120 * test::kSlowdown});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.out.find("data-ready=\"true\"") != std::string::npos);
  return result.out;
}

/// An attribute of the element that begins with `tag`.
std::string attribute(const std::string& dom, const std::string& tag, const std::string& name) {
  const std::size_t begin = dom.find(tag);
  REQUIRE(begin != std::string::npos);
  const std::string element = dom.substr(begin, dom.find('>', begin) - begin);
  std::smatch found;
  REQUIRE(std::regex_search(element, found, std::regex(" " + name + "=\"([^\"]*)\"")));
  return found[1].str();
}
int number(const std::string& dom, const std::string& tag, const std::string& name) {
  return std::stoi(attribute(dom, tag, name));
}

void check_map(const std::string& dom, const RunRecord& run, Metric metric, std::int32_t q) {
  const HeadMap map = head_metric(run, metric, q);
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      const std::string text =
          attribute(dom, "<td data-layer=\"" + std::to_string(layer) + "\" data-head=\"" + std::to_string(head) + "\"",
                    "data-value");
      CAPTURE(layer, head, text);
      const float value = map.at(layer, head);
      REQUIRE((std::isnan(value) ? text.empty() : std::strtod(text.c_str(), nullptr) == value));
    }
  }
  const std::string text = attribute(dom, "<p id=\"mean\"", "data-value");
  REQUIRE((std::isnan(mean(map)) ? text.empty() : std::strtod(text.c_str(), nullptr) == mean(map)));
}

/// States of the chosen head: one by one in the strip, counted under the timeline.
void check_states(const std::string& dom, const RunRecord& run, int layer, int head, std::int32_t q) {
  const views::HeadAtQuery at(run, layer, head, q);
  std::map<TokenState, int> n;
  for (int t = 0; t < run.n_tokens(); ++t) {
    const TokenState state = at.cache_state(t);
    ++n[state];
    REQUIRE(attribute(dom, "id=\"t" + std::to_string(t) + "\"", "data-n") ==
            (t > q ? "" : std::string(views::state_name(state))));
  }
  CHECK(number(dom, "<p id=\"occupancy\"", "data-sink") == n[TokenState::sink]);
  CHECK(number(dom, "<p id=\"occupancy\"", "data-kept") == n[TokenState::kept]);
  CHECK(number(dom, "<p id=\"occupancy\"", "data-window") == n[TokenState::window]);
}

int heads_that(const RunRecord& run, auto holds) {
  int n = 0;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer)
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) n += holds(layer, head);
  return n;
}

bool wrong_by(const RunRecord& run, int layer, int head, int t, std::int32_t q) {
  return run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] <= q &&
         eviction_verdict(run, layer, head, t).verdict == EvictionVerdict::wrong;
}

/// Layer 0 has small windows, its first head by the model; the others have the policy's rule.
RunRecord uneven_run() {
  RunRecord run = test::random_run(11, {.oracle = false, .last_token_fed = false});
  HeadRules& rules = test::own_rules(run);
  for (std::size_t i = 0; i < 3; ++i) rules[i].n_sink = 1, rules[i].window = 5;
  rules[0].locality = Locality::model;
  return run;
}

}  // namespace

TEST_CASE("A page in Chromium shows the numbers of the run's measures") {
  if (chromium().empty()) return test::skip("no chromium (set KVSCOPE_CHROMIUM)");
  const TemporaryFolder folder;
  const RunRecord run = test::random_run(10);
  const std::string page = app::run_page(run, "a.h5");

  const std::string heads = shown(folder, page, "q=130&metric=mean_recall&token=7");
  check_map(heads, run, Metric::mean_recall, 130);
  for (int t = 0; t <= 130; ++t) {
    const int held = heads_that(run, [&](int layer, int head) {
      return visible(130, t, run.evict_at.row(layer, head)[static_cast<std::size_t>(t)]);
    });
    REQUIRE(number(heads, "id=\"t" + std::to_string(t) + "\"", "data-n") == held);
    if (t == 7) CHECK(number(heads, "<p id=\"token\"", "data-held") == held);
  }

  const std::string states = shown(folder, page, "q=150&layer=1&head=2&metric=recall&colour=state");
  check_map(states, run, Metric::recall, 150);
  check_states(states, run, 1, 2, 150);

  const std::string verdicts = shown(folder, page, "q=175&layer=1&head=0&metric=evict_ratio&colour=wrong");
  check_map(verdicts, run, Metric::evict_ratio, 175);
  int wrong = 0, of_head = 0;
  for (int t = 0; t < run.n_tokens(); ++t) {
    const int n = heads_that(run, [&](int layer, int head) { return wrong_by(run, layer, head, t, 175); });
    wrong += n, of_head += wrong_by(run, 1, 0, t, 175);
    if (t <= 175) REQUIRE(number(verdicts, "id=\"t" + std::to_string(t) + "\"", "data-n") == n);
  }
  REQUIRE(wrong > of_head);
  REQUIRE(of_head > 0);
  CHECK(number(verdicts, "<p id=\"wrong\"", "data-wrong") == wrong);
  CHECK(number(verdicts, "<p id=\"wrong\"", "data-head-wrong") == of_head);
}

TEST_CASE("A page in Chromium shows heads with other rules, and heads that the model makes local") {
  if (chromium().empty()) return test::skip("no chromium (set KVSCOPE_CHROMIUM)");
  const TemporaryFolder folder;
  const RunRecord run = uneven_run();
  const std::string page = app::run_page(run, "a.h5");
  const std::string dom = shown(folder, page, "q=100&layer=0&head=1&metric=density&colour=state");
  check_map(dom, run, Metric::density, 100);
  check_states(dom, run, 0, 1, 100);
  CHECK(dom.find("<div id=\"verdicts\" hidden") != std::string::npos);
  // Without a choice: the last query, and a metric in which heads differ.
  const std::string last = shown(folder, page, "metric=cache_share");
  CHECK(number(last, "<body", "data-q") == run.queries() - 1);
  check_map(last, run, Metric::cache_share, run.queries() - 1);
}

TEST_CASE("Keys move through a page in Chromium") {
  if (chromium().empty()) return test::skip("no chromium (set KVSCOPE_CHROMIUM)");
  const TemporaryFolder folder;
  const std::string press = R"(<script>
const wait = setInterval(() => {
  if (!document.body.dataset.ready || document.body.dataset.pressed) return;
  clearInterval(wait);
  const press = (key, shiftKey = false, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey, bubbles: true}));
  press('ArrowLeft'), press('ArrowLeft'), press('ArrowLeft', true), press('ArrowRight');
  press('ArrowDown', false, document.querySelector('#map td')), press('ArrowRight', false, document.querySelector('#map td'));
  press('ArrowRight', false, document.getElementById('strip'));
  document.body.dataset.pressed = document.body.dataset.q;
  press(' ');
  document.body.dataset.playing = document.getElementById('play').getAttribute('aria-pressed');
}, 20);
</script>)";
  const std::string page = app::run_page(test::random_run(10), "a.h5") + press;
  const std::string dom = shown(folder, page, "q=100&token=4");
  CHECK(number(dom, "<body", "data-pressed") == 100 - 2 - 10 + 1);
  CHECK(number(dom, "<body", "data-layer") == 1);
  CHECK(number(dom, "<body", "data-head") == 1);
  CHECK(number(dom, "<p id=\"token\"", "data-token") == 5);
  CHECK(attribute(dom, "<body", "data-playing") == "true");
}

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

/// 2 layers x 3 heads, 10 tokens, window 4: tokens 0 ... 5 are long-range at the last query. `retained[head]` of them
/// are kept; the tokens in the window are there for all heads and must not count.
RunRecord run_that_retains(const std::vector<int>& retained) {
  RunRecord run;
  run.model.n_layers = 2;
  run.model.n_kv_heads = 3;
  run.policy = PolicySpec::parse("streaming:sinks=0,window=4");
  run.n_positions = 10;
  run.ids.assign(10, 1);
  run.status = RunStatus::complete;
  run.evict_at = LifetimeMap(2, 3);
  for (int head = 0; head < 6; ++head) {
    auto& row = run.evict_at.row(head / 3, head % 3);
    for (int t = 0; t < 10; ++t) row.push_back(t >= 6 ? kUndecided : t < retained[head] ? kNever : t + 4);
  }
  return run;
}

/// Of runs whose heads differ.
constexpr char kThreshold[] = "threshold:threshold=0,sinks=4,window=16";

std::vector<float> chosen(const HeadSelection& selection) { return selection.full; }

HeadSelection densest_heads(const std::vector<const RunRecord*>& runs, double share) {
  return choose_heads(runs, {.share = share});
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("heads: the densest are chosen, ties go to the lower layer, then the lower head", "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});
  CHECK(chosen(densest_heads({&run}, 1.0 / 6)) == std::vector<float>{0, 1, 0, 0, 0, 0});
  CHECK(chosen(densest_heads({&run}, 2.0 / 6)) == std::vector<float>{0, 1, 0, 1, 0, 0});
  CHECK(chosen(densest_heads({&run}, 3.0 / 6)) == std::vector<float>{0, 1, 1, 1, 0, 0});
  const HeadSelection tied = densest_heads({&run}, 3.0 / 6);
  CHECK(tied.tied == std::vector<int>{2, 5});
  CHECK(tied.n_tied_chosen == 1);
  REQUIRE(warnings_of(tied).size() == 1);
  CHECK(warnings_of(tied)[0] ==
        "heads 0.2, 1.2 (layer.head) keep the same number of tokens, but only 1 of them is global: the first one");
  CHECK(warnings_of(densest_heads({&run}, 2.0 / 6)).empty());
}

TEST_CASE("heads: a selection that only a tie would decide is refused, with what helps", "[core][heads]") {
  const RunRecord equal = run_that_retains({3, 3, 3, 3, 3, 3}), none = run_that_retains({0, 0, 0, 0, 0, 0});
  const std::string error = error_of([&] { densest_heads({&equal}, 0.5); });
  CHECK_THAT(error, Contains("every head keeps the same number of tokens, 3 outside the window, under "
                             "streaming:sinks=0,window=4"));
  CHECK_THAT(error, Contains("runs of a policy whose heads differ (sp-kv, wg-kv, dms, kvzap, threshold)"));
  CHECK_THAT(error, Contains("strategy a, b or c"));
  CHECK_THAT(error_of([&] { densest_heads({&none}, 0.5); }), Contains("no head keeps a token outside its window"));
  CHECK(densest_heads({&equal}, 0).n_selected() == 0);  // nothing is chosen, so nothing is decided
  CHECK(densest_heads({&equal}, 1).n_selected() == 6);
  const HeadSelection drawn = choose_heads({&equal}, {.strategy = HeadStrategy::c, .count = 2});
  CHECK(drawn.n_selected() == 2);
  CHECK(drawn.coverage == Approx(2.0 / 6));
}

TEST_CASE("heads: every strategy has a coverage, and C and D take as many heads as they are asked for",
          "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});  // 15 in all
  const auto by = [&](HeadStrategy strategy, std::optional<int> count) {
    return choose_heads({&run}, {.strategy = strategy, .count = count});
  };
  const HeadSelection a = by(HeadStrategy::a, {}), b = by(HeadStrategy::b, {});
  CHECK(a.full == std::vector<float>(6, 1));  // layer 0 and the last
  CHECK(a.coverage == 1);
  CHECK(b.full == std::vector<float>{0, 0, 0, 1, 1, 1});
  CHECK(b.coverage == Approx(7.0 / 15));
  CHECK(describe(b) == "3 of 6 heads global, share 0.5, coverage 46.67 % of the kept long-range entries");
  const HeadSelection c = by(HeadStrategy::c, b.n_selected()), d = by(HeadStrategy::d, b.n_selected());
  CHECK(c.n_selected() == 3);
  CHECK(d.full == std::vector<float>{0, 1, 1, 1, 0, 0});
  CHECK(d.coverage == Approx(12.0 / 15));
  CHECK(choose_heads({&run}, {.strategy = HeadStrategy::c, .count = 3, .seed = 5}).full !=
        choose_heads({&run}, {.strategy = HeadStrategy::c, .count = 3, .seed = 6}).full);
  CHECK(choose_heads({&run}, {}).n_selected() == 2);  // a quarter of 6, rounded

  CHECK_THAT(error_of([&] { by(HeadStrategy::a, 3); }), Contains("this strategy has a fixed share, 6 of 6 heads"));
  CHECK_THAT(error_of([&] { by(HeadStrategy::d, 7); }), Contains("0 to 6, the model's KV heads"));
  CHECK_THAT(error_of([&] { choose_heads({&run}, {.share = 0.5, .count = 3}); }), Contains("one of them"));
  CHECK_THAT(error_of([&] { choose_heads({&run}, {.seed = 1}); }), Contains("strategy c"));
}

TEST_CASE("heads: runs of one hybrid give back the heads that they ran with, unless others are asked for",
          "[core][heads]") {
  RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});
  make_local(run, {1, 1, 0, 1, 1, 1});
  const HeadSelection own = choose_heads({&run}, {});
  CHECK(own.rule == "run");
  CHECK(own.full == std::vector<float>{0, 0, 1, 0, 0, 0});
  CHECK(own.coverage == Approx(2.0 / 15));
  CHECK(choose_heads({&run}, {.count = 1}).full == std::vector<float>{0, 1, 0, 0, 0, 0});
  RunRecord other = run;
  make_local(other, {0, 1, 1, 1, 1, 1});
  CHECK(choose_heads({&run, &other}, {}).rule == "d");
}

TEST_CASE("heads: a density made by one threshold on KVpop's scores is warned of", "[core][heads]") {
  RunRecord run = run_that_retains({1, 5, 2, 4, 0, 3});
  run.policy = PolicySpec::parse("threshold:window=4,sinks=0");
  run.scorer.kind = "kvpop_mlstm";
  REQUIRE(warnings_of(choose_heads({&run}, {})).size() == 1);
  CHECK_THAT(warnings_of(choose_heads({&run}, {}))[0], Contains("kvpop_mlstm are not comparable across heads"));
  CHECK(warnings_of(choose_heads({&run}, {.strategy = HeadStrategy::b})).empty());  // goes by no density
  run.scorer.kind = GENERATE("sp_kv", "wg_kv", "dms", "kvzap_mlp", "random");
  CHECK(warnings_of(choose_heads({&run}, {})).empty());
}

TEST_CASE("heads: sinks and window of an export are the runs', and have to be said where runs differ",
          "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});
  RunRecord other = run;
  other.policy = PolicySpec::parse("streaming:sinks=2,window=4");
  CHECK(local_sizes({&run}, {}, {}).window == 4);
  CHECK_THAT(error_of([&] { local_sizes({&run, &other}, {}, {}); }), Contains("heads: sinks: runs of different sinks"));
  CHECK(local_sizes({&run, &other}, 7, {}).n_sink == 7);
  CHECK(local_sizes({&run, &other}, 7, {}).window == 4);
}

TEST_CASE("heads: coverage is the share of retained long-range entries in the chosen heads", "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});  // 15 in all
  CHECK(densest_heads({&run}, 1.0 / 6).coverage == Approx(5.0 / 15));
  CHECK(densest_heads({&run}, 0.5).coverage == Approx(12.0 / 15));
  CHECK(densest_heads({&run}, 0).coverage == 0);
  CHECK(densest_heads({&run}, 1).coverage == 1);
  const RunRecord none = run_that_retains({0, 0, 0, 0, 0, 0});
  CHECK(std::isnan(densest_heads({&none}, 1).coverage));
  CHECK_THAT(describe(densest_heads({&none}, 1)), Contains("no long-range entry was kept"));
}

TEST_CASE("heads: entries are summed over all runs before heads are compared", "[core][heads]") {
  const RunRecord a = run_that_retains({6, 0, 4, 0, 0, 0}), b = run_that_retains({0, 0, 4, 1, 0, 0});
  const HeadSelection selection = densest_heads({&a, &b}, 1.0 / 6);
  CHECK(chosen(selection) == std::vector<float>{0, 0, 1, 0, 0, 0});
  CHECK(selection.coverage == Approx(8.0 / 15));
}

TEST_CASE("heads: share 0 chooses none, share 1 all, and between them round(share x heads)", "[core][heads]") {
  const RunRecord run = random_run(1, {.policy = kThreshold, .n_layers = 4, .n_kv_heads = 5});
  CHECK(densest_heads({&run}, 0).n_selected() == 0);
  CHECK(densest_heads({&run}, 1).n_selected() == 20);
  const double share = GENERATE(0.1, 0.25, 0.33, 0.5, 0.77, 0.99);
  CHECK(densest_heads({&run}, share).n_selected() == static_cast<int>(std::lround(share * 20)));
}

TEST_CASE("heads: a longer list holds the shorter one, and coverage never falls", "[core][heads]") {
  const RunRecord run = random_run(2, {.policy = kThreshold, .n_layers = 3, .n_kv_heads = 4});
  HeadSelection last = densest_heads({&run}, 0);
  for (int n = 1; n <= 12; ++n) {
    const HeadSelection next = densest_heads({&run}, n / 12.0);
    for (std::size_t i = 0; i < next.full.size(); ++i) CHECK(next.full[i] >= last.full[i]);
    CHECK(next.coverage >= last.coverage);
    last = next;
  }
}

TEST_CASE("heads: a share outside 0 to 1, no runs, and runs of two shapes are errors", "[core][heads]") {
  const RunRecord run = random_run(1), other = random_run(1, {.n_layers = 5});
  const double share = GENERATE(-0.1, 1.1, std::nan(""));
  CHECK_THROWS_AS(densest_heads({&run}, share), Error);
  CHECK_THROWS_AS(densest_heads({}, 0.5), Error);
  CHECK_THROWS_AS(densest_heads({&run, &other}, 0.5), Error);
}

TEST_CASE("heads: an exported DuoAttention folder reads as numpy would write it, and comes back equal",
          "[core][heads]") {
  const ScratchFolder folder;
  const HeadSelection selection{.n_layers = 2, .n_kv_heads = 3, .full = {1, 0, 0, 0, 1, 1}};
  export_duo(selection, 4, 60, folder / "duo", false);
  const std::string one = "1.000000000000000000e+00", zero = "0.000000000000000000e+00";
  CHECK(read_file(folder / "duo/full_attention_heads.tsv", 4096) ==
        one + "\t" + zero + "\t" + zero + "\n" + zero + "\t" + one + "\t" + one + "\n");
  const auto config = read_json(folder / "duo/config.json");
  CHECK(config == nlohmann::json{{"sink_size", 4},
                                 {"recent_size", 60},
                                 {"deploy_sink_size", 4},
                                 {"deploy_recent_size", 60},
                                 {"threshold", 0.5},
                                 {"full_heads", 3},
                                 {"sparsity", 0.5}});
  const HeadSelection back = import_duo(folder / "duo");
  CHECK(back.n_layers == 2);
  CHECK(back.n_kv_heads == 3);
  CHECK(back.full == selection.full);
  CHECK(back.n_selected() == 3);
}

TEST_CASE("heads: DuoAttention's quantile rule over an exported folder gives back the chosen heads", "[core][heads]") {
  const ScratchFolder folder;
  const RunRecord run = random_run(3, {.policy = kThreshold, .n_layers = 4, .n_kv_heads = 4});
  const int n = GENERATE(range(1, 16));
  const HeadSelection selection = densest_heads({&run}, n / 16.0);
  export_duo(selection, 4, 16, folder.path(), false);
  auto sorted = import_duo(folder.path()).full;
  std::sort(sorted.begin(), sorted.end());
  // numpy.quantile(values, sparsity), linear between neighbours, as duo_attn/utils.py applies it.
  const double place = (16 - n) / 16.0 * 15;
  const int below = static_cast<int>(place);
  const double threshold = sorted[below] + (place - below) * (sorted[std::min(below + 1, 15)] - sorted[below]);
  std::vector<float> rule;
  for (const float value : import_duo(folder.path()).full) rule.push_back(value >= threshold ? 1 : 0);
  // n/16 of exactly representable values: the threshold lies in (0, 1], where only the chosen heads reach it.
  CHECK(rule == selection.full);
}

TEST_CASE("heads: files that are not a head list are never replaced, and a head list only when asked",
          "[core][heads]") {
  const ScratchFolder folder;
  const HeadSelection selection{.n_layers = 1, .n_kv_heads = 2, .full = {1, 0}};
  const HeadSelection other{.n_layers = 1, .n_kv_heads = 2, .full = {0, 1}};
  export_duo(selection, 4, 60, folder.path(), false);
  CHECK_THROWS_AS(export_duo(other, 4, 60, folder.path(), false), Error);
  CHECK(import_duo(folder.path()).full == selection.full);
  export_duo(other, 4, 60, folder.path(), true);
  CHECK(import_duo(folder.path()).full == other.full);

  const std::string model_config = R"({"architectures": ["Qwen3ForCausalLM"]})";
  write_file_atomic(folder / "config.json", model_config);
  CHECK_THROWS_AS(export_duo(selection, 4, 60, folder.path(), true), Error);
  CHECK(read_file(folder / "config.json", 4096) == model_config);
  CHECK_THROWS_AS(import_duo(folder.path()), Error);
}

TEST_CASE("heads: trained values, CRLF and values just outside 0 to 1 are read as DuoAttention reads them",
          "[core][heads]") {
  const ScratchFolder folder;
  write_file_atomic(folder / "config.json", R"({"sink_size": 64, "recent_size": 256, "extra": 1})");
  write_file_atomic(folder / "full_attention_heads.tsv", "0.75\t-0.01\r\n1.02\t5e-1\r\n");
  const HeadSelection selection = import_duo(folder.path());
  CHECK(selection.n_layers == 2);
  CHECK(selection.full == std::vector<float>{0.75f, 0, 1, 0.5f});
  CHECK(selection.n_selected() == 3);
}

TEST_CASE("heads: sizes to deploy with go before those that heads were trained with", "[core][heads]") {
  const ScratchFolder folder;
  write_file_atomic(folder / "full_attention_heads.tsv", "1\t0\n");
  const auto sizes = [&](const std::string& rest) {
    write_file_atomic(folder / "config.json", R"({"sink_size": 128, "recent_size": 256)" + rest + "}");
    const DuoConfig config = read_duo_config(folder.path());
    return std::pair(config.sink_size, config.recent_size);
  };
  CHECK(sizes("") == std::pair(128, 256));
  CHECK(sizes(R"(, "deploy_sink_size": 64, "deploy_recent_size": null)") == std::pair(64, 256));
  CHECK(sizes(R"(, "deploy_sink_size": 0, "deploy_recent_size": 32)") == std::pair(0, 32));
}

TEST_CASE("heads: a damaged list is an error that names file and line", "[core][heads]") {
  const ScratchFolder folder;
  write_file_atomic(folder / "config.json", R"({"sink_size": 64, "recent_size": 256})");
  const auto [text, where] = GENERATE(table<std::string, std::string>({{"1\t0\n1\n", "line 2"},
                                                                       {"1\tx\n", "line 1"},
                                                                       {"1\tnan\n", "line 1"},
                                                                       {"1\tinf\n", "line 1"},
                                                                       {"1\t\n", "line 1"},
                                                                       {"1 0\n", "line 1"},
                                                                       {"1\t0\n\n1\t0\n", "line 2"},
                                                                       {"", "full_attention_heads.tsv"}}));
  CAPTURE(text);
  write_file_atomic(folder / "full_attention_heads.tsv", text);
  try {
    import_duo(folder.path());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_input);
    CHECK(std::string(error.what()).find("full_attention_heads.tsv") != std::string::npos);
    CHECK(std::string(error.what()).find(where) != std::string::npos);
  }
}

TEST_CASE("heads: a list whose number of full heads is not the one beside it is an error", "[core][heads]") {
  const ScratchFolder folder;
  write_file_atomic(folder / "full_attention_heads.tsv", "0.9\t0.6\n0.7\t0.4\n");
  const auto import_with = [&](const std::string& rest) {
    write_file_atomic(folder / "config.json", R"({"sink_size": 64, "recent_size": 256)" + rest + "}");
    return error_of([&] { import_duo(folder.path()); });
  };
  CHECK(import_with("") == "no error");
  CHECK(import_with(R"(, "full_heads": 3)") == "no error");
  CHECK(import_with(R"(, "full_heads": 2, "threshold": 0.7)") == "no error");
  CHECK_THAT(import_with(R"(, "full_heads": 1)"),
             Contains("3 values of at least 0.5; expected 1, full_heads of config.json"));
  CHECK_THAT(import_with(R"(, "threshold": 2)"), Contains("threshold"));
}

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

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

std::vector<float> chosen(const HeadSelection& selection) { return selection.full; }

}  // namespace

TEST_CASE("heads: the densest are chosen, ties go to the lower layer, then the lower head", "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});
  CHECK(chosen(densest_heads({&run}, 1.0 / 6)) == std::vector<float>{0, 1, 0, 0, 0, 0});
  CHECK(chosen(densest_heads({&run}, 2.0 / 6)) == std::vector<float>{0, 1, 0, 1, 0, 0});
  CHECK(chosen(densest_heads({&run}, 3.0 / 6)) == std::vector<float>{0, 1, 1, 1, 0, 0});
  const RunRecord equal = run_that_retains({3, 3, 3, 3, 3, 3});
  CHECK(chosen(densest_heads({&equal}, 0.5)) == std::vector<float>{1, 1, 1, 0, 0, 0});
}

TEST_CASE("heads: coverage is the share of retained long-range entries in the chosen heads", "[core][heads]") {
  const RunRecord run = run_that_retains({1, 5, 2, 5, 0, 2});  // 15 in all
  CHECK(densest_heads({&run}, 1.0 / 6).coverage == Approx(5.0 / 15));
  CHECK(densest_heads({&run}, 0.5).coverage == Approx(12.0 / 15));
  CHECK(densest_heads({&run}, 0).coverage == 0);
  CHECK(densest_heads({&run}, 1).coverage == 1);
  const RunRecord none = run_that_retains({0, 0, 0, 0, 0, 0});
  CHECK(std::isnan(densest_heads({&none}, 0.5).coverage));
}

TEST_CASE("heads: entries are summed over all runs before heads are compared", "[core][heads]") {
  const RunRecord a = run_that_retains({6, 0, 4, 0, 0, 0}), b = run_that_retains({0, 0, 4, 1, 0, 0});
  const HeadSelection selection = densest_heads({&a, &b}, 1.0 / 6);
  CHECK(chosen(selection) == std::vector<float>{0, 0, 1, 0, 0, 0});
  CHECK(selection.coverage == Approx(8.0 / 15));
}

TEST_CASE("heads: share 0 chooses none, share 1 all, and between them round(share x heads)", "[core][heads]") {
  const RunRecord run = random_run(1, {.n_layers = 4, .n_kv_heads = 5});
  CHECK(densest_heads({&run}, 0).n_selected() == 0);
  CHECK(densest_heads({&run}, 1).n_selected() == 20);
  const double share = GENERATE(0.1, 0.25, 0.33, 0.5, 0.77, 0.99);
  CHECK(densest_heads({&run}, share).n_selected() == static_cast<int>(std::lround(share * 20)));
}

TEST_CASE("heads: a longer list holds the shorter one, and coverage never falls", "[core][heads]") {
  const RunRecord run = random_run(2, {.n_layers = 3, .n_kv_heads = 4});
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
  CHECK(config == nlohmann::json{{"sink_size", 4}, {"recent_size", 60}});
  const HeadSelection back = import_duo(folder / "duo");
  CHECK(back.n_layers == 2);
  CHECK(back.n_kv_heads == 3);
  CHECK(back.full == selection.full);
  CHECK(back.n_selected() == 3);
}

TEST_CASE("heads: DuoAttention's quantile rule over an exported folder gives back the chosen heads", "[core][heads]") {
  const ScratchFolder folder;
  const RunRecord run = random_run(3, {.n_layers = 4, .n_kv_heads = 4});
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

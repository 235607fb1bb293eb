// Global and local heads: a selection that was exported comes back as it was, and a run says how many heads are global.
#include <algorithm>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/engine/gated_model.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 96, kPrompt = 50;

RunRecord run_of(const engine::LoadedModel& model, const std::string& policy) {
  static const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 52);
  return test::feed(model, ids, kPrompt, policy).record;
}

engine::LoadedModel model_with(const std::filesystem::path& gate) {
  return engine::LoadedModel::random(test::small_config(), 1, {"cpu", "float32", {gate.string()}});
}

std::string error_of(const engine::LoadedModel& model, const std::string& policy) {
  try {
    run_of(model, policy);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("heads: an exported selection runs as it was chosen, and is exported again with the same bytes",
          "[engine][heads]") {
  const test::TempFolder folder;
  const RunRecord measured =
      run_of(test::gated_model({test::random_gate(GateKind::sp_kv)}), "sp-kv:threshold=0.5,sinks=3,window=20");
  const HeadSelection chosen = choose_heads({&measured}, {.count = 3});
  CHECK(chosen.tied.empty());
  const LocalSizes sizes = local_sizes({&measured}, {}, {});
  export_duo(chosen, sizes.n_sink, sizes.window, folder.path() / "first", false);
  const HeadTarget own = parse_head_target("json:" + (folder.path() / "first.json").string(), "", true);
  export_heads(std::span(&own, 1), {.selection = chosen, .sizes = sizes}, false);

  // 3 of 4 heads: neither duo's half, nor hybrid's 0.286, nor the quarter that heads takes.
  const std::string policy = GENERATE("duo", "hybrid:heads=d");
  const RunRecord run = run_of(model_with(folder.path() / GENERATE("first", "first.json")), policy);
  REQUIRE(run.local_heads().size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(run.local_heads()[i] == (chosen.full[i] > 0 ? 0 : 1));
  CHECK(run.policy.value("full") == 0.75);
  CHECK(run.geometry().n_sink == 3);
  CHECK(run.geometry().window == 20);

  const HeadSelection back = choose_heads({&run}, {});
  CHECK(back.rule == "run");
  CHECK(back.full == chosen.full);
  CHECK(choose_heads({&run}, {.count = 3}).full == chosen.full);  // by density too
  const LocalSizes again = local_sizes({&run}, {}, {});
  export_duo(back, again.n_sink, again.window, folder.path() / "second", false);
  for (const char* name : {"full_attention_heads.tsv", "config.json"})
    CHECK(read_file(folder.path() / "first" / name, 4096) == read_file(folder.path() / "second" / name, 4096));
}

TEST_CASE("heads: what was written goes before what a head directory says", "[engine][heads]") {
  const test::TempFolder folder;
  export_duo({.n_layers = 2, .n_kv_heads = 2, .full = {0, 1, 1, 1}}, 3, 20, folder.path(), false);
  const engine::LoadedModel model = model_with(folder.path());
  CHECK(run_of(model, "duo:count=1").local_heads() == std::vector<std::uint8_t>{1, 0, 1, 1});
  CHECK(run_of(model, "duo:count=1").policy.to_string() == "duo:full=0.25,count=1,sinks=3,window=20");
  const RunRecord half = run_of(model, "hybrid:heads=d,full=0.5,sinks=0,window=16");
  CHECK(half.local_heads() == std::vector<std::uint8_t>{1, 0, 0, 1});
  CHECK(half.geometry().n_sink == 0);
  CHECK(half.geometry().window == 16);
  // A directory's own threshold says which heads are full.
  write_file_atomic(folder.path() / "full_attention_heads.tsv", "0.9\t0.3\n0.5\t0.7\n");
  write_file_atomic(folder.path() / "config.json", R"({"sink_size": 3, "recent_size": 20, "threshold": 0.7})");
  CHECK(run_of(model_with(folder.path()), "duo").local_heads() == std::vector<std::uint8_t>{0, 1, 1, 0});
}

TEST_CASE("heads: a run records the share of global heads that its strategy or its count makes", "[engine][heads]") {
  const engine::LoadedModel model = test::gated_model({});
  const auto full = [&](const char* policy) { return run_of(model, policy).policy.value("full"); };
  CHECK(full("hybrid:heads=a") == 1);  // layers 0 and 1 of 2
  CHECK(full("hybrid:heads=b") == 0.5);
  CHECK(full("hybrid:heads=c,count=3") == 0.75);
  CHECK(full("hybrid:heads=c,full=0.25") == 0.25);
  const std::vector<std::uint8_t> local = run_of(model, "hybrid:heads=c,count=3").local_heads();
  CHECK(std::count(local.begin(), local.end(), 0) == 3);
  // The text of a run means the same run.
  const PolicySpec recorded = run_of(model, "hybrid:heads=b").policy;
  CHECK(run_of(model, recorded.to_string()).policy == recorded);
  CHECK(full("hybrid:heads=b,full=0.286") == 0.5);  // the default, as older traces wrote it out
}

TEST_CASE("heads: a share or count that contradicts the heads that will be global is refused", "[engine][heads]") {
  const engine::LoadedModel model = test::gated_model({});
  CHECK_THAT(error_of(model, "hybrid:heads=b,full=0.25"),
             Contains("full: 0.25; expected no share: 2 of 4 heads are global by this strategy"));
  CHECK_THAT(error_of(model, "hybrid:heads=b,count=3"), Contains("count: 3; expected no count"));
  CHECK(error_of(model, "hybrid:heads=b,count=2,full=0.5") == "no error");
  CHECK_THAT(error_of(model, "hybrid:heads=c,count=3,full=0.25"), Contains("full or count, not both"));
  CHECK_THAT(error_of(model, "hybrid:heads=c,count=5"), Contains("count: 5; expected at most 4, the model's KV heads"));
}

}  // namespace
}  // namespace kvscope

// Head files of others: scores that rank heads, and files that are damaged, foreign or of another model.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/study/heads/head_values.h"
#include "engine/core/support/error.h"
#include "tests/core/gate_pt_support.h"
#include "tests/support/random_run.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

constexpr HeadShape kModel = {2, 3, 6};

HeadFile read(const std::string& format, const std::filesystem::path& path, const HeadShape& model = kModel) {
  return import_heads(parse_head_target(format + ":" + path.string(), "--import", false), model);
}

template <typename F>
std::string error_of(F&& f, ExitCode code = ExitCode::bad_input) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "no error";
}

/// torch.save of one float tensor.
std::string tensor_file(const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  const std::string tensor =
      pickle_tensor({.stored = static_cast<std::int64_t>(values.size()), .shape = shape, .stride = stride});
  std::vector<ZipPart> parts = small_parts("\x80\x02" + tensor + ".");
  for (ZipPart& part : parts) {
    if (part.name.find("data/0") == std::string::npos) continue;
    part.data.resize(values.size() * 4);
    std::memcpy(part.data.data(), values.data(), part.data.size());
  }
  return zip_file(parts);
}

}  // namespace

TEST_CASE("heads: KVzip's scores rank heads, and of several files the greatest counts", "[core][heads]") {
  const TempFolder folder;
  const auto first = folder.write("a-1.pt", tensor_file({.1f, .9f, .2f, .8f, .3f, .4f}, {2, 3}));
  const HeadFile one = read("kvzip", first);
  CHECK(one.selection.full == std::vector<float>{.1f, .9f, .2f, .8f, .3f, .4f});
  CHECK_FALSE(one.threshold);
  CHECK_FALSE(one.window);
  CHECK(chosen_heads(one, {.count = 2}).full == std::vector<float>{0, 1, 0, 1, 0, 0});
  CHECK(chosen_heads(one, {.share = 0.5}).full == std::vector<float>{0, 1, 0, 1, 0, 1});
  // Its own rule at a ratio of 3 in 6, over scores repeated for each of 10 tokens: strictly above the value there.
  std::vector<float> repeated;
  for (const float score : one.selection.full) repeated.insert(repeated.end(), 10, score);
  std::sort(repeated.begin(), repeated.end(), std::greater<>());
  std::vector<float> above;
  for (const float score : one.selection.full) above.push_back(score > repeated[30 - 1] ? 1.0f : 0.0f);
  CHECK(chosen_heads(one, {.count = 3 - 1}).full == above);
  CHECK(chosen_heads(one, {.strategy = HeadStrategy::b}).full == std::vector<float>{0, 0, 0, 1, 1, 1});
  // torch.load().squeeze() of each, then the maximum.
  folder.write("a-2.pt", tensor_file({.5f, .1f, .6f, .1f, .1f, .1f}, {2, 1, 3}));
  CHECK(read("kvzip", folder.path()).selection.full == std::vector<float>{.5f, .9f, .6f, .8f, .3f, .4f});
  CHECK_THAT(error_of([&] {
               read("kvzip", first, {2, 4, 8});
             }),
             Contains("2 x 3 heads; expected 2 x 4 (layers x KV heads), as the model has"));
  folder.write("a-3.pt", tensor_file({.5f, .1f}, {2, 1}));
  CHECK_THAT(error_of([&] { read("kvzip", folder.path()); }), Contains("a-3.pt: 2 x 1 heads; expected 2 x 3"));
  CHECK_THAT(error_of([&] {
               read("kvzip", folder.write("c.pt", tensor_file({1, 2, 3}, {3})));
             }),
             Contains("a tensor [3]; expected [layers, KV heads]"));
  CHECK_THAT(error_of([&] { read("kvzip", folder.write("d.pt", small_file(pickle_dict({})))); }),
             Contains("not a tensor"));
  // A gate of WG-KV is a dict: this is not one.
  CHECK_THAT(error_of([&] { load_gate(first); }), Contains("not a dict"));
}

TEST_CASE("heads: RLKV's weights at its own quantile are the heads that are chosen here at that share",
          "[core][heads]") {
  const TempFolder folder;
  const std::vector<double> weights = {.31, 1.02, .2, .77, -.01, .5};
  folder.write("adapter_weights.tsv", "3.1e-1\t1.02\t.2\n0.77\t-0.01\t0.5\n");
  const HeadFile file = read("rlkv", GENERATE(0, 1) ? folder.path() : folder / "adapter_weights.tsv");
  CHECK_FALSE(file.threshold);
  for (int n = 1; n < 6; ++n) {
    std::vector<double> clipped, sorted;
    for (const double weight : weights) clipped.push_back(std::clamp(weight, 0.0, 1.0));
    sorted = clipped;
    std::sort(sorted.begin(), sorted.end());
    const double place = (6 - n) / 6.0 * 5;
    const auto below = static_cast<std::size_t>(place);
    const double cut = sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
    std::vector<float> full;
    for (const double weight : clipped) full.push_back(weight >= cut ? 1.0f : 0.0f);
    CHECK(chosen_heads(file, {.count = n}).full == full);
  }
  CHECK(chosen_heads(file, {}).n_selected() == 2);  // a quarter of 6, rounded
}

TEST_CASE("heads: a KV head counts as much as the greatest of its query heads in HeadKV's scores", "[core][heads]") {
  const TempFolder folder;
  const auto path = folder.write("s.json", R"({"0-0": [0.1, 0.3], "0-1": [0.1], "0-2": [0], "0-3": [0.6], "0-4": [0],
      "0-5": [0], "1-0": [0], "1-1": [0], "1-2": [0], "1-3": [0], "1-4": [0.4, 0.5, 0.6], "1-5": [0.1]})");
  CHECK(read("headkv", path).selection.full == std::vector<float>{.2f, .6f, 0, 0, 0, .5f});
  CHECK_THAT(error_of([&] { read("headkv", path, {}); }), Contains("name the model"));
  CHECK_THAT(error_of([&] { read("headkv", path, {2, 4, 8}); }), Contains("2 x 6 heads; expected 2 x 8"));
}

TEST_CASE("heads: damaged and foreign head files are one line that names file and place", "[core][heads]") {
  struct Bad {
    const char *format, *text, *says;
  };
  const auto bad = GENERATE(values<Bad>(
      {{"json", "{", "line 1"},
       {"json", "[]", "format: missing"},
       {"json", R"({"format": "kvscope-heads", "version": 2})", "version: 2"},
       {"json", R"({"format": "kvscope-heads", "version": 1})", "full: missing"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "windw": 4})", "\"windw\": an unknown key"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 2], [0, 0, 0]]})", "neither 0 nor 1"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0]]})", "a row of 2"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]], "selected": 2})",
        "selected: 2; expected 1"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]], "selected": 1})", "sinks"},
       {"json",
        R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]], "selected": 1, "tied": [[0, 3]]})",
        "tied"},
       {"json",
        R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]], "selected": 1, "sinks": 0, "window": 8,
            "value": [[1, 0, 0]]})",
        "value: 1 rows; expected 2"},
       {"json",
        R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0]], "selected": 1, "sinks": 0, "window": 8})",
        "1 x 2 heads; expected 2 x 3"},
       {"json",
        R"({"format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]], "selected": 1, "sinks": 0, "window": 8,
            "facts": [1]})",
        "facts: \"[1]\"; expected an object"},
       {"hf", R"({"sliding_window": 4})", "layer_types: missing"},
       {"hf", R"({"layer_types": ["full_attention"], "sliding_window": 4})", "1 layers; expected 2"},
       {"hf", R"({"layer_types": ["full_attention", "chunked_attention"], "sliding_window": 4})", "layer_types[1]"},
       {"hf", R"({"layer_types": ["full_attention", "sliding_attention"]})", "sliding_window: missing"},
       {"hf",
        R"({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4, "use_sliding_window": false})",
        "use_sliding_window: false"},
       {"hf",
        R"({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4, "num_key_value_heads": 5})",
        "2 x 5 heads; expected 2 x 3"},
       {"block", R"({"block_configs": {}})", "block_configs: missing, or not a list"},
       {"block", R"({"block_configs": [{"ffn": {}}, {}]})", "block_configs[0]"},
       {"block", R"({"block_configs": [{"attention": {"n_heads_in_group": 2, "sparsify": ["q"]}}, {}]})",
        "block_configs[0].attention.sparsify: set"},
       {"block", R"({"block_configs": [{"attention": {"no_op": true}}, {}]})",
        "block_configs[0].attention.no_op: true"},
       {"block",
        R"({"block_configs": [{"attention": {"n_heads_in_group": 4}}, {"attention": {"n_heads_in_group": 4}}]})",
        "a divisor of 6"},
       {"block",
        R"({"block_configs": [{"attention": {"n_heads_in_group": 2, "window_length": 4}},
                              {"attention": {"n_heads_in_group": 2, "window_length": 8}}]})",
        "block_configs[1].attention.window_length: 8 with 0 sinks; expected 4 with 0, as"},
       {"headkv", "{}", "no head scores"},
       {"headkv", R"({"0-0": [1], "0-x": [1]})", "\"0-x\": no head"},
       {"headkv", R"({"0-0": [1], "00-0": [1]})", "a head twice"},
       {"headkv", R"({"0-0": [1], "1-1": [1]})", "2 heads; expected 2 x 2"},
       {"headkv", R"({"0-0": []})", "no scores"},
       {"headkv", R"({"0-0": ["1"]})", "a number"},
       {"headkv", "[1]", "no head scores; expected an object"},
       {"headkv", R"({"0-0": 1})", "0-0: no scores; expected a list of numbers"},
       {"headkv", R"({"x-0": [1]})", "\"x-0\": no head"},
       {"headkv", R"({"-1-0": [1]})", "\"-1-0\": no head"},
       {"headkv", R"({"99999-0": [1]})", "\"99999-0\": no head"},
       {"headkv", R"({"0-99999": [1]})", "\"0-99999\": no head"},
       {"headkv", R"({"0-0": [1], "0-1": [1], "0-2": [1], "0-3": [1], "0-4": [1], "0-5": [1]})",
        "1 x 6 heads; expected"},
       {"json", "{}", "format: missing"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": 7})", "full: not a table"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [7]})", "full: a row that is not a list"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [[]]})", "full: a row that is not a list"},
       {"json", R"({"format": "kvscope-heads", "version": 1, "full": [["x", 0, 0], [0, 0, 0]]})", "; expected numbers"},
       {"rlkv", "1\t0\n1\n", "line 2"},
       {"rlkv", "1\t0\n1\t0\n", "2 x 2 heads; expected 2 x 3"},
       {"kvzip", "PK", "f"}}));
  CAPTURE(bad.format, bad.text);
  const TempFolder folder;
  const auto path = folder.write("f", bad.text);
  const std::string line = error_of([&] { read(bad.format, path); });
  CHECK_THAT(line, Contains(path.string()));
  CHECK_THAT(line, Contains(bad.says));
}

TEST_CASE("heads: what a head file says of a model that is not named must be enough, and each place in it be one",
          "[core][heads]") {
  struct Bad {
    const char *format, *text, *says;
  };
  const auto bad = GENERATE(values<Bad>({
      {"json", R"("tied": 7)", "tied: \"7\"; expected [layer, head]"},
      {"json", R"("tied": [[0]])", "tied: \"[0]\""},
      {"json", R"("tied": [[0, 1, 2]])", "tied: \"[0,1,2]\""},
      {"json", R"("tied": [["0", 1]])", "tied:"},
      {"json", R"("tied": [[0, -1]])", "tied: \"[0,-1]\""},
      {"json", R"("tied": [[2, 0]])", "tied: \"[2,0]\""},
      {"json", R"("spread": [[0, 0, 0], [0, 0]])", "spread: a row of 2; expected 3, as in the first"},
      {"json", R"("value": [[0, 0], [0, 0]])", "value: a row of 2; expected 3"},
      {"json", R"("value": [[0, 0, true], [0, 0, 0]])", "value: \"true\"; expected numbers"},
      {"json", R"("coverage": 1.5)", "coverage"},
      {"json", R"("tied_chosen": 7)", "tied_chosen"},
      {"json", R"("runs": -1)", "runs"},
      {"json", R"("group_size": 5000)", "group_size"},
      {"hf", R"("layer_types": 4)", "layer_types: missing, or not a list"},
      {"hf", R"("layer_types": [])", "layer_types: an empty list"},
      {"hf", R"("layer_types": ["full_attention", 4])", "layer_types[1]: \"4\"; expected full_attention"},
      {"hf", R"("layer_types": ["full_attention"], "sliding_window": 4)", "num_key_value_heads: missing"},
      {"hf", R"("layer_types": ["full_attention"], "sliding_window": 0, "num_key_value_heads": 2)", "sliding_window"},
      {"block", R"("block_configs": [])", "block_configs: an empty list"},
      {"block", R"("block_configs": [4])", "block_configs[0]: no \"attention\""},
      {"block", R"("block_configs": [{"attention": {"replace_with_linear": true}}])",
       "block_configs[0].attention.replace_with_linear: true"},
      {"block", R"("block_configs": [{"attention": {"n_heads_in_group": 2}}, {"attention": {"n_heads_in_group": 3}}])",
       "block_configs[1].attention.n_heads_in_group: 3; expected 2"},
      {"block",
       R"("block_configs": [{"attention": {"n_heads_in_group": 2, "window_length": 4, "num_sink_tokens": 1}},
                            {"attention": {"n_heads_in_group": 2, "window_length": 4}}])",
       "block_configs[1].attention.window_length: 4 with 0 sinks; expected 4 with 1"},
      {"block", R"("block_configs": [{"attention": {"n_heads_in_group": 2}}])", "num_attention_heads: missing"},
      {"block", R"("num_attention_heads": 5, "block_configs": [{"attention": {"n_heads_in_group": 2}}])",
       "a divisor of 5"},
  }));
  CAPTURE(bad.format, bad.text);
  const std::string start = std::string(bad.format) == "json"
                                ? R"("format": "kvscope-heads", "version": 1, "full": [[1, 0, 0], [0, 0, 0]],
                                     "selected": 1, "sinks": 0, "window": 8, )"
                                : "";
  const TempFolder folder;
  const auto path = folder.write("f", "{" + start + bad.text + "}");
  const std::string line = error_of([&] { read(bad.format, path, {}); });
  CHECK_THAT(line, Contains(path.string()));
  CHECK_THAT(line, Contains(bad.says));
}

TEST_CASE("heads: tables with more layers or heads than any model has are refused before they are read",
          "[core][heads]") {
  const auto text = [](const std::string& full) {
    return R"({"format": "kvscope-heads", "version": 1, "full": )" + full + "}";
  };
  std::string rows = "[[0]", row = "[[0";
  for (int i = 0; i < 4096; ++i) rows += ",[0]", row += ",0";
  const TempFolder folder;
  const auto tall = folder.write("tall", text(rows + "]")), wide = folder.write("wide", text(row + "]]"));
  CHECK_THAT(error_of([&] { read("json", tall, {}); }), Contains("full: not a table; expected a row per layer"));
  CHECK_THAT(error_of([&] { read("json", wide, {}); }), Contains("full: a row that is not a list"));
}

TEST_CASE("heads: a choice that no format can say is refused before anything is written", "[core][heads]") {
  const TempFolder folder;
  const HeadSelection heads{.n_layers = 2, .n_kv_heads = 2, .full = {1, 1, 0, 0}};
  const auto refusal = [&](const char* format, const HeadChoice& choice, ExitCode code) {
    const HeadTarget target = parse_head_target(format + (":" + (folder.path() / "out").string()), "--export", true);
    std::string line = error_of([&] { export_heads(std::span(&target, 1), choice, false); }, code);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "out"));
    return line;
  };
  const auto choice = [&](int sinks, int window, int group) {
    return HeadChoice{.selection = heads, .sizes = {sinks, window}, .group_size = group};
  };
  CHECK_THAT(refusal("hf", choice(0, 0, 2), ExitCode::usage), Contains("hf: window: 0; expected 1 or more tokens"));
  CHECK_THAT(refusal("block", choice(4, 0, 2), ExitCode::usage), Contains("block: window: 0"));
  CHECK_THAT(refusal("block", choice(4, 8, 0), ExitCode::usage),
             Contains("n_heads_in_group: a model with an unknown number of query heads"));
  for (const char* format : {"json", "duo"}) {
    CHECK_THAT(refusal(format, choice(-1, 8, 2), ExitCode::usage), Contains("a negative sink or recent size"));
    CHECK_THAT(refusal(format, choice(4, -1, 2), ExitCode::usage), Contains("a negative sink or recent size"));
    HeadChoice shapeless = choice(4, 8, 2);
    shapeless.selection.full.pop_back();
    CHECK_THAT(refusal(format, shapeless, ExitCode::internal), Contains("a head selection without shape"));
    shapeless.selection = {};
    CHECK_THAT(refusal(format, shapeless, ExitCode::internal), Contains("a head selection without shape"));
  }
  HeadChoice odd = choice(4, 8, 2);
  odd.origin.facts = "[1]";
  CHECK_THAT(refusal("json", odd, ExitCode::internal), Contains("facts: not a JSON object"));
}

TEST_CASE("heads: a file cut at any byte is an error or the whole choice, and never another", "[core][heads]") {
  const TempFolder folder;
  HeadSelection heads{.n_layers = 2, .n_kv_heads = 3, .full = {1, 1, 1, 0, 0, 0}};
  const std::string format = GENERATE("json", "headkv", "hf", "block");
  const HeadTarget target = parse_head_target(format + ":" + (folder / "whole").string(), "--export", true);
  export_heads(std::span(&target, 1), {.selection = heads, .sizes = {4, 8}, .group_size = 2}, false);
  const std::string bytes = read_file(folder / "whole", 1 << 20);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto path = folder.write("cut", bytes.substr(0, n));
    try {
      const HeadFile found = read(format, path);
      CHECK(found.selection.full == heads.full);
      CHECK(n + 2 > bytes.size());  // without the line end
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_input);
    }
  }
}

TEST_CASE("heads: a target that names no format is a usage error that lists them", "[core][heads]") {
  const std::string text = GENERATE("json", "json:", "tsv:a", ":a", "duo", "kvzip:a.pt");
  const std::string line = error_of([&] { parse_head_target(text, "--export", true); }, ExitCode::usage);
  CHECK_THAT(line, Contains("--export: '" + text +
                            "'; expected one of duo:FOLDER, headkv:FILE, hf:FILE, block:FILE, json:FILE"));
}

TEST_CASE("heads: values choose the greatest, lower heads first, and say where that decided", "[core][heads]") {
  const HeadsOfModel heads{.n_layers = 2, .n_kv_heads = 3, .alpha = {.2f, .7f, .7f, .1f, .7f, .9f}};
  for (int n = 0; n <= 6; ++n) {
    const HeadSelection chosen = choose_by_values(heads, {.count = n});
    std::vector<float> want(6, 0);
    for (int i = 0; i < n; ++i) want[std::vector<int>{5, 1, 2, 4, 0, 3}[i]] = 1;
    CHECK(chosen.full == want);
    CHECK(chosen.tied == (n == 2 || n == 3 ? std::vector<int>{1, 2, 4} : std::vector<int>{}));
    CHECK(chosen.n_tied_chosen == (n == 2 ? 1 : n == 3 ? 2 : 0));
    CHECK(std::isnan(chosen.coverage));
  }
  const HeadsOfModel equal{.n_layers = 1, .n_kv_heads = 2, .alpha = {.5f, .5f}};
  CHECK_THAT(error_of([&] { choose_by_values(equal, {.count = 1}); }, ExitCode::usage), Contains("all 0.5"));
  CHECK_THAT(error_of([&] { choose_by_values(heads, {.share = 1.5}); }, ExitCode::usage), Contains("0 to 1"));
  CHECK_THAT(error_of([&] { choose_by_values(heads, {.strategy = HeadStrategy::a, .count = 1}); }, ExitCode::usage),
             Contains("6 of 6 heads"));
}

TEST_CASE("heads: densities are counted a head and a run, with their mean and standard deviation", "[core][heads]") {
  const RunRecord a = random_run(1), b = random_run(2, {.prompt_len = 90});
  const HeadDensities found = head_densities({&a, &b}), single = head_densities({&a});
  const auto density = [](const RunRecord& run, int layer, int head) {
    const int q = run.queries() - 1, end = q - run.geometry().window + 1;
    int kept = 0;
    for (int t = 0; t < end; ++t) kept += run.evict_at.row(layer, head)[t] > q;
    return static_cast<double>(kept) / end;
  };
  for (int i = 0; i < 6; ++i) {
    const double x = density(a, i / 3, i % 3), y = density(b, i / 3, i % 3);
    CHECK(found.mean[i] == Approx((x + y) / 2));
    CHECK(found.deviation[i] == Approx(std::abs(x - y) / std::sqrt(2.0)).margin(1e-7));
    CHECK(single.mean[i] == Approx(x));
    CHECK(std::isnan(single.deviation[i]));
  }
}

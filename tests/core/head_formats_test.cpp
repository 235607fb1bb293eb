// Head files against the rules by which their consumers load them, restated here: what is written selects the intended
// heads there, of uneven layers too.

#include "engine/core/files/gate/head_formats.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;
constexpr int kLayers = 5, kHeads = 4, kGroup = 3;
constexpr HeadShape kModel = {kLayers, kHeads, kHeads* kGroup};

/// Uneven layers: any `n` of the heads.
HeadSelection some_heads(std::uint64_t seed, int n) {
  HeadSelection heads{.n_layers = kLayers, .n_kv_heads = kHeads, .rule = "d"};
  heads.full.assign(kLayers * kHeads, 0);
  Random random(seed);
  for (int left = n; left > 0;) {
    float& head = heads.full[random.below(heads.full.size())];
    left -= head == 0;
    head = 1;
  }
  return heads;
}

HeadSelection layers(const std::vector<int>& full) {
  HeadSelection heads{.n_layers = kLayers, .n_kv_heads = kHeads, .rule = "b"};
  for (const int layer : full) heads.full.insert(heads.full.end(), kHeads, static_cast<float>(layer));
  return heads;
}

HeadChoice choice_of(HeadSelection heads) {
  return {.selection = std::move(heads), .sizes = {4, 64}, .group_size = kGroup};
}

Words write(const std::string& target, const HeadChoice& choice, bool overwrite = false) {
  const HeadTarget parsed = parse_head_target(target, "--export", true);
  return export_heads(std::span(&parsed, 1), choice, overwrite);
}

HeadFile read(const std::string& target, const HeadShape& model = kModel) {
  return import_heads(parse_head_target(target, "--import", false), model);
}

/// numpy.quantile, linear between neighbours.
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double above = values[std::min(below + 1, values.size() - 1)];
  return values[below] + (place - static_cast<double>(below)) * (above - values[below]);
}

struct DuoFolder {
  std::vector<double> values;
  nlohmann::json config;
};

/// numpy.loadtxt of tab-separated numbers, and the JSON beside it.
DuoFolder load_duo(const std::filesystem::path& folder) {
  DuoFolder found;
  std::ifstream table(folder / "full_attention_heads.tsv");
  for (double value; table >> value;) found.values.push_back(value);
  found.config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  return found;
}

std::vector<float> ones_where(std::size_t n, auto&& is_full) {
  std::vector<float> full;
  for (std::size_t i = 0; i < n; ++i) full.push_back(is_full(i) ? 1.0f : 0.0f);
  return full;
}

/// HeadKV-SGLang asked for a ratio: of each layer the first round(ratio * heads) by value, then by head.
std::vector<float> by_ratio(const std::vector<double>& values, double ratio) {
  std::vector<float> full(values.size(), 0);
  const int n = static_cast<int>(std::nearbyint(ratio * kHeads));
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<int> order(kHeads);
    std::iota(order.begin(), order.end(), layer * kHeads);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
    for (int i = 0; i < n; ++i) full[order[i]] = 1;
  }
  return full;
}

}  // namespace

TEST_CASE("heads: DuoAttention, kvpress and HeadKV-SGLang load exactly the chosen heads, whatever the layers hold",
          "[core][heads]") {
  const int n = GENERATE(range(0, kLayers * kHeads + 1));
  const TempFolder folder;
  const HeadSelection heads = some_heads(17, n);
  const Words losses = write("duo:" + folder.path().string(), choice_of(heads));
  const DuoFolder found = load_duo(folder.path());
  const double sparsity = found.config["sparsity"], threshold = found.config["threshold"];
  const auto size = found.values.size();
  REQUIRE(size == kLayers * kHeads);

  // DuoAttention and LServe: noise against ties, then the heads at or above the quantile; all are local from sparsity 1
  // on, none at 0.
  Random random(5);
  std::vector<double> noisy;
  for (const double value : found.values) noisy.push_back(value + 1e-6 * random.uniform());
  const double cut = sparsity >= 1 ? 2 : sparsity <= 0 ? -1 : quantile(noisy, sparsity);
  CHECK(ones_where(size, [&](std::size_t i) { return noisy[i] >= cut; }) == heads.full);

  // kvpress: the round(heads * ratio) lowest are local.
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return found.values[a] < found.values[b]; });
  std::vector<float> pressed(size, 1);
  for (int i = 0; i < std::nearbyint(static_cast<double>(size) * sparsity); ++i) pressed[order[i]] = 0;
  CHECK(pressed == heads.full);

  // HeadKV-SGLang: the threshold, unless it is asked for a ratio, which is where we warn.
  CHECK(ones_where(size, [&](std::size_t i) { return found.values[i] >= threshold; }) == heads.full);
  const bool changes = by_ratio(found.values, static_cast<double>(n) / static_cast<double>(size)) != heads.full;
  CHECK(losses.size() == (changes ? 1 : 0));
  if (changes) CHECK_THAT(losses[0], Contains("with a ratio, HeadKV-SGLang would take"));

  // It deploys with deploy_*, the others with the plain sizes.
  for (const char* key : {"sink_size", "deploy_sink_size"}) CHECK(found.config[key] == 4);
  for (const char* key : {"recent_size", "deploy_recent_size"}) CHECK(found.config[key] == 64);
}

TEST_CASE("heads: HeadKV gives more than its base budget to exactly the query heads of the chosen KV heads",
          "[core][heads]") {
  const TempFolder folder;
  const HeadSelection heads = some_heads(3, 7);
  const auto path = folder / "heads.json";
  CHECK(write("headkv:" + path.string(), choice_of(heads)).size() == 1);
  // json.loads of the first line, means in the order of the file, each as a share of all.
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  const auto scores = nlohmann::ordered_json::parse(line);
  REQUIRE(scores.size() == kLayers * kHeads * kGroup);
  double sum = 0;
  for (const auto& [key, list] : scores.items()) sum += list[0].get<double>();
  const int base = 128, beta = 4, pool = base / beta * kLayers * kHeads * kGroup, least = base - base / beta;
  int i = 0;
  for (const auto& [key, list] : scores.items()) {
    const int layer = i / (kHeads * kGroup), head = i % (kHeads * kGroup);
    CHECK(key == std::to_string(layer) + "-" + std::to_string(head));
    const double capacity = std::round(list[0].get<double>() / sum * pool + least);
    CHECK((capacity > least) == (heads.full[layer * kHeads + head / kGroup] == 1));
    ++i;
  }
  CHECK_THAT(error_of([&] {
               write("headkv:" + path.string(), choice_of(layers({0, 0, 0, 0, 0})), true);
             }),
             Contains("none is global"));
}

TEST_CASE("heads: Hugging Face slides exactly the local layers, by the window and where it is told to",
          "[core][heads]") {
  const TempFolder folder;
  const std::vector<int> full = {1, 0, 0, 1, 0};
  const auto path = folder / "fragment.json";
  const Words losses = write("hf:" + path.string(), choice_of(layers(full)));
  REQUIRE(losses.size() == 1);
  CHECK_THAT(losses[0], Contains("have no sinks"));
  const auto config = nlohmann::json::parse(std::ifstream(path));
  // Qwen's configuration: no window unless use_sliding_window; a layer slides by its entry of layer_types.
  const auto window = config["use_sliding_window"] == true ? config["sliding_window"] : nlohmann::json();
  REQUIRE(config["layer_types"].size() == kLayers);
  for (int layer = 0; layer < kLayers; ++layer) {
    const bool slides = config["layer_types"][layer] == "sliding_attention" && !window.is_null();
    CHECK(slides == (full[layer] == 0));
    if (!slides) CHECK(config["layer_types"][layer] == "full_attention");
  }
  CHECK(window == 64);
}

TEST_CASE("heads: DeciLM's blocks have a window with sinks in exactly the local layers", "[core][heads]") {
  const TempFolder folder;
  const std::vector<int> full = {0, 1, 0, 0, 1};
  const int sinks = GENERATE(0, 4);
  HeadChoice choice = choice_of(layers(full));
  choice.sizes.n_sink = sinks;
  CHECK(write("block:" + (folder / "blocks.json").string(), choice).empty());
  const auto blocks = nlohmann::json::parse(std::ifstream(folder / "blocks.json"))["block_configs"];
  REQUIRE(blocks.size() == kLayers);
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto& attention = blocks[layer]["attention"];
    const bool window = !attention["window_length"].is_null(),
               is_sink = window && !attention["num_sink_tokens"].is_null();
    CHECK(attention["no_op"] == false);
    CHECK(attention["n_heads_in_group"] == kGroup);
    CHECK(window == (full[layer] == 0));
    CHECK(is_sink == (window && sinks > 0));
    // What its dataclass asserts of a sink.
    if (is_sink)
      CHECK_FALSE((attention["unshifted_sink"] == true && attention["use_prefill_window_in_sink_attention"] == true));
    if (is_sink) CHECK((attention["num_sink_tokens"] == sinks && attention["unshifted_sink"] == true));
    if (window) CHECK(attention["window_length"] == 64);
  }
}

TEST_CASE("heads: whole-layer formats refuse a layer with both kinds of heads, name it, and write nothing at all",
          "[core][heads]") {
  const TempFolder folder;
  HeadSelection heads = layers({1, 0, 0, 1, 0});
  heads.full[2 * kHeads + 1] = 1;
  const std::string format = GENERATE("hf", "block");
  const HeadTarget targets[] = {parse_head_target("duo:" + (folder / "duo").string(), "--export", true),
                                parse_head_target(format + ":" + (folder / "file").string(), "--export", true)};
  CHECK_THAT(error_of([&] { export_heads(targets, choice_of(heads), false); }),
             Contains(format + ": layer 2: 1 of 4 heads are global; expected all or none"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("heads: export, import and export again give the same bytes in every format", "[core][heads]") {
  const TempFolder folder;
  HeadChoice choice = choice_of(GENERATE(0, 1) ? some_heads(8, 6) : layers({0, 1, 1, 0, 1}));
  const bool whole = choice.selection.rule == "b";
  HeadSelection& heads = choice.selection;
  heads.coverage = 0.1 + 0.2;
  heads.tied = {2, 19}, heads.n_tied_chosen = 1, heads.thresholded = {"sp_kv"};
  choice.origin = {"a \"model\"", "0f", "density", {"sp-kv:window=64", "wg-kv:"}, 3};
  choice.origin.facts = R"({"turnover": [0.125, 3], "a": {"z": null, "b": "\u00e9"}})";
  for (int i = 0; i < kLayers * kHeads; ++i) {
    choice.origin.value.push_back(i == 3 ? std::nan("") : i / 7.0);
    choice.origin.spread.push_back(1e-9 * i);
  }
  int n_formats = 0;
  for (const HeadFormat& format : head_formats()) {
    const std::string name(format.name);
    if (!format.write || (!whole && (name == "hf" || name == "block"))) continue;
    ++n_formats;
    CAPTURE(name);
    const auto first = name + ":" + (folder / ("1" + name)).string(),
               second = name + ":" + (folder / ("2" + name)).string();
    write(first, choice);
    const HeadFile found = read(first);
    const HeadChoice again = {.selection = chosen_heads(found, {}),
                              .sizes = {found.n_sink.value_or(4), found.window.value_or(64)},
                              .origin = found.origin,
                              .group_size = found.group_size};
    CHECK(again.selection.full == heads.full);
    write(second, again);
    const auto bytes = [](const std::string& target) {
      std::string all;
      const std::filesystem::path path = target.substr(target.find(':') + 1);
      if (!std::filesystem::is_directory(path)) return read_file(path, 1 << 20);
      for (const char* file : {"full_attention_heads.tsv", "config.json"}) all += read_file(path / file, 1 << 20);
      return all;
    };
    CHECK(bytes(first) == bytes(second));
  }
  CHECK(n_formats == (whole ? 5 : 3));
}

TEST_CASE("heads: what stands there is replaced only when asked, and a model's config.json never", "[core][heads]") {
  const TempFolder folder;
  const HeadChoice choice = choice_of(layers({0, 1, 1, 0, 1})), other = choice_of(layers({1, 1, 1, 0, 1}));
  const std::string format = GENERATE("hf", "block", "json", "headkv");
  const std::string target = format + ":" + (folder / "config.json").string();
  write(target, choice);
  CHECK_THAT(error_of([&] { write(target, other); }), Contains("the file exists"));
  write(target, other, true);
  CHECK(chosen_heads(read(target), {}).full == other.selection.full);
  const std::string config = R"({"model_type": "qwen3", "layer_types": ["full_attention"]})";
  folder.write("config.json", config);
  CHECK_THAT(error_of([&] { write(target, choice, true); }), Contains("not a head list"));
  CHECK(read_file(folder / "config.json", 4096) == config);
}

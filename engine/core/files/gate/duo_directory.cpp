#include "engine/core/files/gate/duo_directory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/files/gate/head_table.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/text.h"

namespace kvscope {

namespace {

constexpr char kTable[] = "full_attention_heads.tsv";
constexpr char kConfig[] = "config.json";
constexpr int kMaxHeads = 1 << 24;
constexpr int kMaxTokens = 1 << 30;

DuoConfig read_config(const std::filesystem::path& path) {
  const auto json = read_json(path);
  if (!json.is_object())
    throw Error({.file = path.string(), .found = "not an object", .expected = "sink_size and recent_size"});
  const JsonObject config(json, path.string());
  const auto tokens = [&](const char* deployed, const char* trained) {
    return static_cast<int>(config.integer(config.has(deployed) ? deployed : trained, 0, kMaxTokens));
  };
  DuoConfig read{.sink_size = tokens("deploy_sink_size", "sink_size"),
                 .recent_size = tokens("deploy_recent_size", "recent_size"),
                 .threshold = config.number_or("threshold", 0.5, 0, 1)};
  if (json.contains("full_heads")) read.full_heads = static_cast<int>(config.integer("full_heads", 0, kMaxHeads));
  return read;
}

}  // namespace

void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite) {
  const HeadTarget target = parse_head_target("duo:" + folder.string(), "heads", true);
  export_heads(std::span(&target, 1), {.selection = selection, .sizes = {sink_size, recent_size}}, overwrite);
}

std::vector<FileToWrite> write_duo(const HeadChoice& choice, const std::filesystem::path& folder) {
  const HeadSelection& heads = choice.selection;
  const double sparsity = 1 - static_cast<double>(heads.n_selected()) / heads.n_heads();
  const nlohmann::ordered_json config = {{"sink_size", choice.sizes.n_sink},
                                         {"recent_size", choice.sizes.window},
                                         {"deploy_sink_size", choice.sizes.n_sink},
                                         {"deploy_recent_size", choice.sizes.window},
                                         {"threshold", 0.5},
                                         {"full_heads", heads.n_selected()},
                                         {"sparsity", sparsity}};
  return {{folder / kTable, format_head_table(heads.full, heads.n_kv_heads)},
          {folder / kConfig, config.dump(2) + "\n"}};
}

HeadFile read_duo(const std::filesystem::path& folder, const HeadShape& model) {
  const DuoConfig config = read_duo_config(folder);
  HeadFile file{.selection = import_duo(folder),
                .threshold = config.threshold,
                .n_sink = config.sink_size,
                .window = config.recent_size,
                .group_size = model.group_size(),
                .files = {folder / kTable, folder / kConfig}};
  check_shape(file, model, (folder / kTable).string());
  return file;
}

/// HeadKV-SGLang's ratio: of each layer the first round(ratio * n_kv_heads) by value, then by head. Python rounds halves
/// to even.
std::vector<std::string> duo_losses(const HeadChoice& choice) {
  const HeadSelection& heads = choice.selection;
  const int per_layer =
      static_cast<int>(std::nearbyint(static_cast<double>(heads.n_selected()) / heads.n_heads() * heads.n_kv_heads));
  int least = heads.n_kv_heads, most = 0;
  for (int layer = 0; layer < heads.n_layers; ++layer) {
    const auto row = heads.full.begin() + static_cast<std::ptrdiff_t>(layer) * heads.n_kv_heads;
    const int n = static_cast<int>(std::count_if(row, row + heads.n_kv_heads, [](float v) { return v >= 0.5f; }));
    least = std::min(least, n), most = std::max(most, n);
  }
  if (least == per_layer && most == per_layer) return {};
  return {"layers have " + std::to_string(least) + " to " + std::to_string(most) +
          " global heads: with a ratio, HeadKV-SGLang would take " + std::to_string(per_layer) +
          " in each layer; run it without a ratio, so that it uses the threshold in config.json"};
}

DuoConfig read_duo_config(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kConfig, error) && std::filesystem::exists(folder / kTable, error))
    throw Error(
        {.file = (folder / kTable).string(),
         .found = "no config.json next to it",
         .expected = R"(one that gives the tokens its local heads see, {"sink_size": 64, "recent_size": 256})"});
  return read_config(folder / kConfig);
}

HeadSelection import_duo(const std::filesystem::path& folder) {
  const DuoConfig config = read_duo_config(folder);
  const auto path = folder / kTable;
  HeadTable table = read_head_table(path);
  const auto threshold = static_cast<float>(config.threshold);  // as the values were read
  const auto n_full =
      std::count_if(table.values.begin(), table.values.end(), [&](float value) { return value >= threshold; });
  if (config.full_heads && *config.full_heads != n_full)
    refuse(path.string(), "", std::to_string(n_full) + " values of at least " + number_text(config.threshold),
           std::to_string(*config.full_heads) + ", full_heads of config.json");
  return {.n_layers = table.n_layers,
          .n_kv_heads = table.n_kv_heads,
          .full = std::move(table.values),
          .coverage = std::numeric_limits<double>::quiet_NaN(),
          .rule = "file"};
}

bool is_head_file(const std::filesystem::path& path) {
  try {
    path.filename() == kConfig ? static_cast<void>(read_config(path)) : static_cast<void>(read_head_table(path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> warnings_of(const HeadSelection& selection, const std::string& equal) {
  constexpr std::size_t kMostNamed = 32;
  std::vector<std::string> warnings;
  if (!selection.tied.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(selection.tied.size(), kMostNamed); ++i) {
      const int head = selection.tied[i];
      names += (i == 0 ? "" : ", ") + std::to_string(head / selection.n_kv_heads) + "." +
               std::to_string(head % selection.n_kv_heads);
    }
    if (selection.tied.size() > kMostNamed)
      names += " and " + std::to_string(selection.tied.size() - kMostNamed) + " more";
    warnings.push_back(
        "heads " + names + " (layer.head) " + equal + ", but only " + std::to_string(selection.n_tied_chosen) +
        (selection.n_tied_chosen == 1 ? " of them is global: the first one" : " of them are global: the first ones"));
  }
  for (const std::string& kind : selection.thresholded) {
    if (const auto gate = gate_kind_of(kind); !gate || info_of(*gate).has_common_zero) continue;
    warnings.push_back("the scores of " + kind +
                       " are not comparable across heads, so one threshold does not show which heads are dense; use "
                       "a gate whose scores are (sp_kv, wg_kv, dms, kvzap)");
  }
  return warnings;
}

}  // namespace kvscope

#include "engine/core/files/gate/duo_directory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/output_folder.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/text.h"

namespace kvscope {

namespace {

constexpr char kTable[] = "full_attention_heads.tsv";
constexpr char kConfig[] = "config.json";
constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kMaxSide = 4096;  // layers, heads
constexpr int kMaxTokens = 1 << 30;

std::string format_table(const HeadSelection& selection) {
  std::string text;
  char number[40];
  for (std::size_t i = 0; i < selection.full.size(); ++i) {
    // "%.18e" of numpy.savetxt, but the same in every locale.
    const auto end = std::to_chars(number, number + sizeof number, static_cast<double>(selection.full[i]),
                                   std::chars_format::scientific, 18);
    text.append(number, end.ptr);
    text.push_back((i + 1) % selection.n_kv_heads == 0 ? '\n' : '\t');
  }
  return text;
}

/// Numbers of one line; trained values may lie a little outside [0, 1] and are clipped, as DuoAttention does.
std::vector<float> parse_row(std::string_view line, const std::string& file, int number) {
  std::vector<float> row;
  const std::string where = "line " + std::to_string(number);
  while (true) {
    const auto tab = line.find('\t');
    const auto cell = line.substr(0, tab);
    double value = 0;
    const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (cell.empty() || end.ec != std::errc() || end.ptr != cell.data() + cell.size() || !std::isfinite(value))
      refuse(file, where, in_quotes(cell, 40), "a number");
    row.push_back(static_cast<float>(std::clamp(value, 0.0, 1.0)));
    if (row.size() > kMaxSide)
      throw Error({.file = file, .where = where, .found = "more than 4096 columns", .expected = "one a KV head"});
    if (tab == std::string_view::npos) return row;
    line.remove_prefix(tab + 1);
  }
}

HeadSelection parse_table(std::string_view text, const std::string& file) {
  HeadSelection selection{.coverage = std::numeric_limits<double>::quiet_NaN()};
  for (int number = 1; !text.empty(); ++number) {
    const auto line_end = text.find('\n');
    auto line = text.substr(0, line_end);
    text.remove_prefix(line_end == std::string_view::npos ? text.size() : line_end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() && text.empty()) break;  // a blank last line
    const auto row = parse_row(line, file, number);
    if (selection.n_kv_heads == 0) selection.n_kv_heads = static_cast<int>(row.size());
    if (row.size() != static_cast<std::size_t>(selection.n_kv_heads))
      refuse(file, "line " + std::to_string(number), std::to_string(row.size()) + " columns",
             std::to_string(selection.n_kv_heads) + ", as in the first line");
    selection.full.insert(selection.full.end(), row.begin(), row.end());
    if (++selection.n_layers > static_cast<int>(kMaxSide))
      throw Error({.file = file, .found = "more than 4096 rows", .expected = "one a layer"});
  }
  if (selection.n_layers == 0) throw Error({.file = file, .found = "an empty file", .expected = "one row a layer"});
  return selection;
}

DuoConfig read_config(const std::filesystem::path& path) {
  const auto json = read_json(path);
  if (!json.is_object())
    throw Error({.file = path.string(), .found = "not an object", .expected = "sink_size and recent_size"});
  const JsonObject config(json, path.string());
  DuoConfig read{.sink_size = static_cast<int>(config.integer("sink_size", 0, kMaxTokens)),
                 .recent_size = static_cast<int>(config.integer("recent_size", 0, kMaxTokens)),
                 .threshold = config.number_or("threshold", 0.5, 0, 1)};
  if (json.contains("full_heads"))
    read.full_heads = static_cast<int>(config.integer("full_heads", 0, kMaxSide * kMaxSide));
  return read;
}

/// A config.json may well be a model's: what is not a head list is never replaced, overwrite or not.
void check_replaceable(const std::filesystem::path& path, bool overwrite) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  if (!overwrite)
    throw Error({.file = path.string(), .found = "the file exists", .hint = "choose another folder or overwrite it"});
  try {
    if (path.filename() == kConfig) {
      read_config(path);
    } else {
      parse_table(read_file(path, kMaxBytes), path.string());
    }
  } catch (const Error&) {
    refuse(path.string(), "", "a file that is not a head list", "an empty folder, or one with a head list to replace");
  }
}

}  // namespace

void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite) {
  if (selection.n_layers < 1 || selection.n_kv_heads < 1 ||
      selection.full.size() != static_cast<std::size_t>(selection.n_layers) * selection.n_kv_heads)
    throw Error({.code = ExitCode::internal, .file = folder.string(), .found = "a head selection without shape"});
  if (sink_size < 0 || recent_size < 0)
    throw Error({.code = ExitCode::usage,
                 .file = folder.string(),
                 .found = "a negative sink or recent size",
                 .expected = "tokens"});
  const OutputFolder made(folder);
  for (const char* name : {kTable, kConfig}) check_replaceable(folder / name, overwrite);
  const double sparsity = 1 - static_cast<double>(selection.n_selected()) / selection.n_heads();
  const nlohmann::ordered_json config = {{"sink_size", sink_size},
                                         {"recent_size", recent_size},
                                         {"threshold", 0.5},
                                         {"full_heads", selection.n_selected()},
                                         {"sparsity", sparsity}};
  const FileToWrite files[] = {{folder / kTable, format_table(selection)}, {folder / kConfig, config.dump(2) + "\n"}};
  write_files_atomic(files, overwrite);
}

DuoConfig read_duo_config(const std::filesystem::path& folder) { return read_config(folder / kConfig); }

HeadSelection import_duo(const std::filesystem::path& folder) {
  const DuoConfig config = read_duo_config(folder);
  const auto table = folder / kTable;
  HeadSelection heads = parse_table(read_file(table, kMaxBytes), table.string());
  const auto threshold = static_cast<float>(config.threshold);  // as the values were read
  const auto n_full =
      std::count_if(heads.full.begin(), heads.full.end(), [&](float value) { return value >= threshold; });
  if (config.full_heads && *config.full_heads != n_full)
    refuse(table.string(), "", std::to_string(n_full) + " values of at least " + number_text(config.threshold),
           std::to_string(*config.full_heads) + ", full_heads of config.json");
  return heads;
}

std::vector<std::string> warnings_of(const HeadSelection& selection) {
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
    warnings.push_back("heads " + names + " (layer.head) keep equally many tokens, and only " +
                       std::to_string(selection.n_tied_chosen) + " of them are global: the first ones");
  }
  for (const std::string& kind : selection.thresholded) {
    if (const auto gate = gate_kind_of(kind); !gate || scores_have_common_zero(*gate)) continue;
    warnings.push_back("the scores of " + kind +
                       " have no common zero: one threshold for all heads says how dense a head is only beside its own "
                       "offset; take a gate whose scores have one (sp_kv, wg_kv, dms, kvzap)");
  }
  return warnings;
}

}  // namespace kvscope

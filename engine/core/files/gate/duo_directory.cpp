#include "engine/core/files/gate/duo_directory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {

namespace {

constexpr char kTable[] = "full_attention_heads.tsv";
constexpr char kConfig[] = "config.json";
constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kMaxSide = 4096;  // layers, heads

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
      refuse(file, where, "\"" + std::string(cell.substr(0, 40)) + "\"", "a number");
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

void check_config(const std::filesystem::path& path) {
  const auto json = read_json(path);
  if (!json.is_object())
    throw Error({.file = path.string(), .found = "not an object", .expected = "sink_size and recent_size"});
  const JsonObject config(json, path.string());
  config.integer("sink_size", 0, INT32_MAX);
  config.integer("recent_size", 0, INT32_MAX);
}

/// A config.json may well be a model's: what is not a head list is never replaced, overwrite or not.
void check_replaceable(const std::filesystem::path& path, bool overwrite) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  if (!overwrite)
    throw Error({.file = path.string(), .found = "the file exists", .hint = "choose another folder or overwrite it"});
  try {
    if (path.filename() == kConfig) {
      check_config(path);
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
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder, error))
    throw Error({.code = ExitCode::resource,
                 .file = folder.string(),
                 .found = "the folder cannot be made",
                 .expected = "a folder that can be written"});
  for (const char* name : {kTable, kConfig}) check_replaceable(folder / name, overwrite);
  write_file_atomic(folder / kTable, format_table(selection));
  write_file_atomic(folder / kConfig, "{\n  \"sink_size\": " + std::to_string(sink_size) +
                                          ",\n  \"recent_size\": " + std::to_string(recent_size) + "\n}\n");
}

HeadSelection import_duo(const std::filesystem::path& folder) {
  check_config(folder / kConfig);
  const auto table = folder / kTable;
  return parse_table(read_file(table, kMaxBytes), table.string());
}

}  // namespace kvscope

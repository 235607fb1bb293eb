#include "engine/core/files/gate/head_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/study/heads/head_values.h"
#include "engine/core/support/output_folder.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr HeadFormat kFormats[] = {
    {"duo", "FOLDER", write_duo, read_duo, duo_losses},
    {"headkv", "FILE", write_headkv, read_headkv, headkv_losses},
    {"hf", "FILE", write_layer_types, read_layer_types, layer_types_losses},
    {"block", "FILE", write_block_configs, read_block_configs},
    {"json", "FILE", write_heads_json, read_heads_json},
    {"kvzip", "FILE.pt", nullptr, read_kvzip_scores},
    {"rlkv", "FOLDER", nullptr, read_rlkv_weights},
};

void check_choice(const HeadChoice& choice) {
  const HeadSelection& heads = choice.selection;
  if (heads.n_layers < 1 || heads.n_kv_heads < 1 || heads.full.size() != static_cast<std::size_t>(heads.n_heads()))
    throw Error({.code = ExitCode::internal, .file = "heads", .found = "a head selection without shape"});
  const auto [sinks, window] = choice.sizes;
  if (sinks < 0 || window < 0)
    throw Error(
        {.code = ExitCode::usage, .file = "heads", .found = "a negative sink or recent size", .expected = "tokens"});
}

/// A model's config.json, whose loss costs more than a second name.
bool is_model_config(const std::filesystem::path& path) {
  try {
    const auto json = read_json(path);
    return json.is_object() && (json.contains("architectures") || json.contains("model_type"));
  } catch (const Error&) {
    return false;
  }
}

void check_replaceable(const HeadTarget& target, const std::filesystem::path& path, bool overwrite) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  const bool folder = target.format->path == "FOLDER";
  if (!overwrite)
    throw Error({.file = path.string(),
                 .found = "the file exists",
                 .hint = std::string("choose another ") + (folder ? "folder" : "name") + " or overwrite it"});
  if (is_model_config(path) || (folder && !is_head_file(path)))
    refuse(path.string(), "", "a file that is not a head list",
           folder ? "an empty folder, or one with a head list to replace" : "another name");
}

}  // namespace

std::span<const HeadFormat> head_formats() { return kFormats; }

HeadTarget parse_head_target(const std::string& text, const std::string& option, bool to_write) {
  const auto colon = text.find(':');
  std::string known;
  for (const HeadFormat& format : kFormats) {
    if (to_write && !format.write) continue;
    known += (known.empty() ? "" : ", ") + std::string(format.name) + ":" + std::string(format.path);
    if (colon == std::string::npos || text.compare(0, colon, format.name) != 0 || colon + 1 == text.size()) continue;
    return {&format, text.substr(colon + 1)};
  }
  throw Error({.code = ExitCode::usage, .file = option, .found = "'" + text + "'", .expected = "one of " + known});
}

std::vector<std::string> export_heads(std::span<const HeadTarget> targets, const HeadChoice& choice, bool overwrite,
                                      std::span<const std::filesystem::path> inputs) {
  check_choice(choice);
  std::vector<FileToWrite> files;
  std::vector<std::string> losses;
  // First what cannot be said in one of the formats, then the folders: a refusal leaves none behind.
  for (const HeadTarget& target : targets) {
    for (FileToWrite& file : target.format->write(choice, target.path)) {
      check_replaceable(target, file.path, overwrite);
      files.push_back(std::move(file));
    }
    if (!target.format->losses) continue;
    for (std::string& loss : target.format->losses(choice)) losses.push_back(std::move(loss));
  }
  std::list<OutputFolder> folders;
  for (const HeadTarget& target : targets) {
    if (target.format->path == "FOLDER") folders.emplace_back(target.path);
  }
  write_files_atomic(files, overwrite, inputs);
  return losses;
}

HeadFile import_heads(const HeadTarget& target, const HeadShape& model) {
  return target.format->read(target.path, model);
}

std::optional<double> threshold_of(const std::vector<float>& values) {
  const bool choice = std::all_of(values.begin(), values.end(), [](float value) { return value == 0 || value == 1; });
  return choice ? std::optional(0.5) : std::nullopt;
}

void check_shape(const HeadFile& heads, const HeadShape& model, const std::string& file) {
  const HeadSelection& found = heads.selection;
  const bool other_layers = model.n_layers > 0 && model.n_layers != found.n_layers;
  if (!other_layers && (model.n_kv_heads == 0 || model.n_kv_heads == found.n_kv_heads)) return;
  refuse(file, "", std::to_string(found.n_layers) + " x " + std::to_string(found.n_kv_heads) + " heads",
         std::to_string(model.n_layers) + " x " + std::to_string(model.n_kv_heads) +
             " (layers x KV heads), as the model has");
}

void check_layers(std::size_t n_found, const HeadShape& model, const std::string& file, const std::string& where) {
  if (n_found == 0) refuse(file, where, "an empty list", "one entry per layer");
  if (model.n_layers == 0 || n_found == static_cast<std::size_t>(model.n_layers)) return;
  refuse(file, where, std::to_string(n_found) + " layers", std::to_string(model.n_layers) + ", as the model has");
}

HeadSelection chosen_heads(const HeadFile& file, const HeadQuestion& question) {
  const bool asked = question.strategy || question.share || question.count || question.seed;
  if (asked || !file.threshold) {
    HeadsOfModel heads{
        .n_layers = file.selection.n_layers, .n_kv_heads = file.selection.n_kv_heads, .alpha = file.selection.full};
    // What was measured says more than what was chosen by it.
    const std::vector<double>& value = file.origin.value;
    for (std::size_t i = 0; i < value.size(); ++i)
      heads.alpha[i] = std::isnan(value[i]) ? std::numeric_limits<float>::lowest() : static_cast<float>(value[i]);
    return choose_by_values(heads, question);
  }
  HeadSelection heads = file.selection;
  const auto threshold = static_cast<float>(*file.threshold);  // as the values were read
  for (float& value : heads.full) value = value >= threshold ? 1.0f : 0.0f;
  return heads;
}

}  // namespace kvscope

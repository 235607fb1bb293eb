// Files of scores. HeadKV and Retrieval_Head keep one line of JSON, {"layer-head": [score, ...]} over query heads in
// order; KVzip tensors of [n_layers, n_kv_heads], of which it takes the greatest; RLKV a table as DuoAttention's.

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "engine/core/files/gate/gate_source.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/files/gate/head_table.h"
#include "engine/core/files/gate/pt_reader.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxSide = 4096;
constexpr char kAdapter[] = "adapter_weights.tsv";

HeadFile file_of(HeadSelection heads, const HeadShape& model, std::vector<fs::path> files) {
  heads.coverage = std::numeric_limits<double>::quiet_NaN();
  heads.rule = "file";
  HeadFile file{.selection = std::move(heads), .group_size = model.group_size(), .files = std::move(files)};
  file.threshold = threshold_of(file.selection.full);
  check_shape(file, model, file.files.front().string());
  return file;
}

/// "12-3" as layer 12, head 3.
std::pair<int, int> place_of(const std::string& key, const std::string& file) {
  const auto dash = key.find('-');
  int layer = -1, head = -1;
  if (dash != std::string::npos) {
    const char *begin = key.data(), *middle = begin + dash, *end = begin + key.size();
    if (std::from_chars(begin, middle, layer).ptr != middle) layer = -1;
    if (std::from_chars(middle + 1, end, head).ptr != end) head = -1;
  }
  if (layer < 0 || head < 0 || layer >= kMaxSide || head >= kMaxSide)
    refuse(file, in_quotes(key, 40), "no head", "keys such as \"0-0\", a layer and a query head");
  return {layer, head};
}

double mean_of(const nlohmann::json& scores, const std::string& file, const std::string& key) {
  double sum = 0;
  if (!scores.is_array() || scores.empty()) refuse(file, key, "no scores", "a list of numbers");
  for (const auto& score : scores) {
    if (!score.is_number()) refuse(file, key, in_quotes(score.dump(), 40), "a number");
    sum += score.get<double>();
  }
  return sum / static_cast<double>(scores.size());
}

struct QueryHeads {
  int n_layers = 0, n_heads = 0;
  std::vector<double> mean;  // [n_layers][n_heads]
};

QueryHeads read_query_heads(const fs::path& path) {
  const std::string file = path.string();
  const auto found = read_json(path);
  if (!found.is_object() || found.empty()) refuse(file, "", "no head scores", "an object of \"layer-head\" and scores");
  QueryHeads heads;
  std::map<std::pair<int, int>, double> means;
  for (const auto& [key, scores] : found.items()) {
    const auto place = place_of(key, file);
    heads.n_layers = std::max(heads.n_layers, place.first + 1),
    heads.n_heads = std::max(heads.n_heads, place.second + 1);
    if (!means.emplace(place, mean_of(scores, file, key)).second) refuse(file, key, "a head twice", "every head once");
  }
  if (means.size() != static_cast<std::size_t>(heads.n_layers) * heads.n_heads)
    refuse(file, "", std::to_string(means.size()) + " heads",
           std::to_string(heads.n_layers) + " x " + std::to_string(heads.n_heads) + " (layers x query heads)");
  for (const auto& [place, mean] : means) heads.mean.push_back(mean);
  return heads;
}

/// [n_layers, n_kv_heads], axes of one left out.
HeadSelection read_scores(const fs::path& path) {
  const PtFile file = PtFile::open_tensor(path);
  PtTensor tensor = file.tensors().begin()->second;
  std::vector<std::int64_t> shape;
  for (const std::int64_t size : tensor.shape)
    if (size != 1) shape.push_back(size);
  if (tensor.shape.size() == 2) shape = tensor.shape;
  if (shape.size() != 2 || shape[0] > kMaxSide || shape[1] > kMaxSide)
    refuse(path.string(), "", "a tensor " + show_shape(tensor.shape), "[layers, KV heads]");
  HeadSelection heads{.n_layers = static_cast<int>(shape[0]), .n_kv_heads = static_cast<int>(shape[1])};
  heads.full = file.read(tensor);
  for (const float value : heads.full)
    if (!std::isfinite(value)) refuse(path.string(), "", "values that are not finite", "scores");
  return heads;
}

}  // namespace

std::vector<FileToWrite> write_headkv(const HeadChoice& choice, const fs::path& path) {
  const auto refuse_choice = [](const char* where, const char* found, const char* expected) {
    throw Error({.code = ExitCode::usage, .file = "headkv", .where = where, .found = found, .expected = expected});
  };
  const HeadSelection& heads = choice.selection;
  if (choice.group_size < 1)
    refuse_choice("query heads", "a model with an unknown number of query heads",
                  "runs or a model that give the number");
  if (heads.n_selected() == 0) refuse_choice("heads", "none is global", "at least one: HeadKV divides by their sum");
  std::string line = "{";
  for (int layer = 0; layer < heads.n_layers; ++layer) {
    for (int head = 0; head < heads.n_kv_heads * choice.group_size; ++head) {
      const float value = heads.full[static_cast<std::size_t>(layer) * heads.n_kv_heads + head / choice.group_size];
      line += (line.size() > 1 ? ", \"" : "\"") + std::to_string(layer) + "-" + std::to_string(head) +
              (value >= 0.5f ? "\": [1.0]" : "\": [0.0]");
    }
  }
  return {{path, line + "}\n"}};
}

std::vector<std::string> headkv_losses(const HeadChoice& choice) {
  return {"a HeadKV file has neither sinks nor a window: give " + std::to_string(choice.sizes.n_sink) + " and " +
          std::to_string(choice.sizes.window) + " when you read it; its local heads keep a share of the budget"};
}

HeadFile read_headkv(const fs::path& path, const HeadShape& model) {
  const QueryHeads found = read_query_heads(path);
  const std::string file = path.string();
  if (model.n_kv_heads == 0 || model.n_heads == 0)
    refuse(file, "", "scores of query heads", "a model that gives the number of query heads per KV head",
           "name the model");
  if (found.n_heads != model.n_heads || found.n_layers != model.n_layers)
    refuse(file, "", std::to_string(found.n_layers) + " x " + std::to_string(found.n_heads) + " heads",
           std::to_string(model.n_layers) + " x " + std::to_string(model.n_heads) +
               " (layers x query heads), as the model has");
  HeadSelection heads{.n_layers = model.n_layers, .n_kv_heads = model.n_kv_heads};
  const auto group = static_cast<std::size_t>(model.group_size());
  for (std::size_t i = 0; i < found.mean.size(); i += group)
    heads.full.push_back(
        static_cast<float>(*std::max_element(found.mean.begin() + static_cast<std::ptrdiff_t>(i),
                                             found.mean.begin() + static_cast<std::ptrdiff_t>(i + group))));
  return file_of(std::move(heads), model, {path});
}

HeadFile read_kvzip_scores(const fs::path& path, const HeadShape& model) {
  std::set<fs::path> paths = {path};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    paths.clear();
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".pt") paths.insert(entry.path());
    if (paths.empty()) refuse(path.string(), "", "no .pt file", "head scores as KVzip saves them");
  }
  HeadSelection heads;
  for (const fs::path& one : paths) {
    const HeadSelection next = read_scores(one);
    if (heads.n_layers == 0) heads = next;
    if (next.n_layers != heads.n_layers || next.n_kv_heads != heads.n_kv_heads)
      refuse(one.string(), "", std::to_string(next.n_layers) + " x " + std::to_string(next.n_kv_heads) + " heads",
             std::to_string(heads.n_layers) + " x " + std::to_string(heads.n_kv_heads) + ", as in the files before");
    for (std::size_t i = 0; i < heads.full.size(); ++i) heads.full[i] = std::max(heads.full[i], next.full[i]);
  }
  return file_of(std::move(heads), model, {paths.begin(), paths.end()});
}

HeadFile read_rlkv_weights(const fs::path& path, const HeadShape& model) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / kAdapter : path;
  HeadTable table = read_head_table(file);
  return file_of({.n_layers = table.n_layers, .n_kv_heads = table.n_kv_heads, .full = std::move(table.values)}, model,
                 {file});
}

}  // namespace kvscope

// What this machine has of a point of a study: the file of its text, its gates, its model.

#include <filesystem>

#include "app/catalog/models.h"
#include "app/session/engine_link.h"  // has_weights_of
#include "app/session/gate_title.h"
#include "app/session/study_point.h"
#include "app/support/paths.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/tokenizer/text_pieces.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostText = 256u << 20;

/// Where a text of that name may be: as it was named, beside the study, where recipes have theirs, among the given texts.
std::vector<fs::path> places_of(const std::string& text, const PointPlace& place) {
  std::vector<fs::path> paths(place.texts.begin(), place.texts.end());
  const fs::path named(text), folder = fs::path(place.study).parent_path();
  if (named.is_absolute()) {
    paths.push_back(named);
  } else {
    for (const fs::path& base : {folder, folder.parent_path(), shipped_folder("samples") / "recipes", fs::path(".")})
      paths.push_back((base / named).lexically_normal());
  }
  paths.push_back(folder / named.filename());
  paths.push_back(shipped_folder("samples") / "prompts" / named.filename());
  return paths;
}

struct FoundText {
  std::string path;   // with the study's hash
  std::string other;  // of that name, with another one
};

FoundText find_text(const MeasuredPoint& point, const PointPlace& place) {
  FoundText found;
  const std::string wanted = point.hash_of(fs::path(point.text).filename().string());
  for (const fs::path& path : places_of(point.text, place)) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    try {
      const std::string bytes = read_file(path, kMostText);
      // `hybrid` hashes the text without a byte order mark.
      if (hex_text(fnv1a64(bytes)) == wanted || hex_text(fnv1a64(as_text(bytes, path.string()))) == wanted)
        return {path.string(), ""};
    } catch (const Error&) {
      continue;  // one that cannot be read is none
    }
    if (found.other.empty()) found.other = path.string();
  }
  return found;
}

void refuse(PointSources& sources, std::string why_not, std::string remedy = "", std::string label = "") {
  sources.run.why_not = std::move(why_not);
  sources.run.remedy = std::move(remedy), sources.run.label = std::move(label);
}

/// Whether the open model is the study's.
bool check_model(const MeasuredPoint& point, const PointPlace& place, PointSources& sources) {
  const std::string name = point.model_name.empty() ? point.model : point.model_name;
  std::error_code error;
  const bool is_here = find_model(point.model).has_value() || fs::is_directory(point.model, error);
  const auto refuse_model = [&](const std::string& why) {
    refuse(sources, why + (is_here ? "" : " That model is not on this machine."), is_here ? "study.open_model" : "",
           "Open " + name);
    if (!is_here) sources.run.label.clear();
    return false;
  };
  if (place.model_path.empty()) return refuse_model("No model is open. The study used " + name + ".");
  if (!place.model) {
    refuse(sources, "The model is not loaded yet.");
    return false;
  }
  const ModelInfo& model = *place.model;
  if (has_weights_of(model, name, point.weights_hash)) return true;
  if (model.name == name)
    return refuse_model("The open model is also named " + name + ", but its weights differ from the study's.");
  return refuse_model("The open model is " + model.name + "; the study used " + name + ".");
}

bool check_text(const MeasuredPoint& point, const PointPlace& place, PointSources& sources) {
  const FoundText text = find_text(point, place);
  sources.text = text.path;
  const std::string name = fs::path(point.text).filename().string();
  if (!text.path.empty()) return true;
  refuse(sources,
         text.other.empty() ? "The text " + name + " was not found."
                            : "The text " + text.other + " has changed since the study: its hash differs.",
         "study.find_text", "Locate " + name + " ...");
  return false;
}

bool check_gates(const MeasuredPoint& point, const PointPlace& place, PointSources& sources) {
  try {
    const PolicySpec spec = PolicySpec::parse(point.policy);
    // The heads of a hybrid are the study's: no directory of this machine's takes their place.
    std::vector<PolicySpec> reading;
    if (point.heads.empty()) reading.push_back(spec);
    for (const std::string& gate : point.gates) refuse_pipe(gate, place.study);
    sources.gates = gates_to_load(place.model_path, point.gates, reading);
    for (const std::string& path : sources.gates) {
      const std::string name = fs::path(path).filename().string(), wanted = point.hash_of(name);
      if (wanted.empty()) continue;
      const std::string hash =
          point.hashes_gate_files ? gate_files_hash(path) : load_gate(path, ModelConfig::load(place.model_path)).hash;
      if (hash == wanted) continue;
      refuse(sources, "The gate " + path + " has changed since the study: its hash differs.");
      return false;
    }
  } catch (const Error& error) {
    refuse(sources, std::string("The study's gate was not found: ") + error.what());
    return false;
  }
  return true;
}

void describe(const MeasuredPoint& point, const PointPlace& place, PointSources& sources) {
  std::string gates;
  for (const std::string& path : sources.gates)
    gates += (gates.empty() ? "" : ", ") + fs::path(path).filename().string();
  auto& from = sources.run.from;
  from.push_back("Policy " + point.policy + (gates.empty() ? "" : " with the gate " + gates) +
                 (point.heads.empty() ? "" : " and the study's heads") + ", acting after every " +
                 (point.chunk == 1 ? "token" : std::to_string(point.chunk) + " tokens") + ".");
  from.push_back(std::to_string(point.length) + " tokens of " + sources.text + "; the hash matches the study's.");
  const ModelInfo& model = *place.model;
  if (model.dtype != point.dtype || model.device != point.device)
    sources.run.notes.push_back("Measured in " + point.dtype + " on " + point.device + ", here " + model.dtype +
                                " on " + model.device + ": expect differences in the last digits.");
}

}  // namespace

PointSources find_sources(const MeasuredPoint& point, const PointPlace& place) {
  PointSources sources;
  sources.run.n_pieces = point.n_pieces;
  if (!point.trace.empty()) {
    const fs::path trace = fs::path(place.study).parent_path() / point.trace;
    std::error_code error;
    if (fs::is_regular_file(trace, error)) {
      sources.trace = trace.string();
      sources.run.from.push_back("The trace " + sources.trace + ", saved with the study.");
      return sources;
    }
    sources.run.notes.push_back("The trace " + trace.string() + " was not found, so the run is measured again.");
  }
  if (!point.why_not.empty()) {
    refuse(sources, point.why_not);
    return sources;
  }
  if (check_model(point, place, sources) && check_text(point, place, sources) && check_gates(point, place, sources))
    describe(point, place, sources);
  return sources;
}

PointToRun prepare_point(const MeasuredPoint& point, const PointSources& sources, const std::string& model_path,
                         const std::string& heads_folder) {
  PointToRun run{.point = point, .text = "", .ids = {}, .gates = {}};
  const Tokenizer tokenizer = Tokenizer::load(model_path);
  std::string text = read_file(sources.text, kMostText);
  if (!point.heads.empty() || point.hash_of(fs::path(point.text).filename().string()) != hex_text(fnv1a64(text)))
    text = as_text(std::move(text), sources.text);
  const CutText cut = cut_text(tokenizer, text, point.pieces_of_text, point.length);
  if (cut.pieces.empty())
    throw Error({.file = sources.text,
                 .found = std::to_string(cut.n_tokens) + " tokens",
                 .expected = std::to_string(point.pieces_of_text) + " pieces of " + std::to_string(point.length)});
  run.ids = cut.pieces[static_cast<std::size_t>(point.piece)];
  std::vector<std::int32_t> own = run.ids;
  own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(tokenizer.encode_with_special("").size()));
  run.text = tokenizer.decode_further(own);
  std::vector<std::string> paths = sources.gates;
  if (!point.heads.empty()) {
    const HeadSelection heads{.n_layers = point.n_layers, .n_kv_heads = point.n_kv_heads, .full = point.heads};
    Fnv1a hash;
    for (const int number : {point.n_layers, point.n_kv_heads, point.n_sink, point.window})
      hash.add_word(static_cast<std::uint64_t>(number));
    for (const float value : point.heads) hash.add_word(value >= 0.5f ? 1 : 0);
    const fs::path folder = fs::path(heads_folder) / (std::string(kStudyFolder) + hash.hex());
    fs::create_directories(folder);
    export_duo(heads, point.n_sink, point.window, folder, true);
    paths.push_back(folder.string());
  }
  for (const std::string& path : paths)
    run.gates.push_back(read_gate({fs::path(path).filename().string(), path, KnownGate::Origin::shipped}, model_path));
  return run;
}

}  // namespace kvscope::app

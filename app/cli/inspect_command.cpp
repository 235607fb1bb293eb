// kvscope inspect: what a model, a gate, a weights file, a trace or a study is.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "app/catalog/adapter_summary.h"
#include "app/catalog/gate_summary.h"
#include "app/catalog/models.h"
#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/engine_client/progress.h"
#include "app/studies/capture/capture_plan.h"
#include "app/support/trace_open.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/lora_file.h"
#include "engine/core/files/weights/model_folder.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/run_end.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/run_versions.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_notes.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr OptionSpec kInspectOptions[] = {{"json", "", "one object"}};

/// A folder in which a model stands or should stand, with or without a gate beside it.
bool is_model(const fs::path& folder, const std::optional<std::string>& gate) {
  if (gate && has_own_config(*gate)) return false;
  std::error_code error;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(folder / name, error)) return true;
  }
  return !gate;
}

/// What the tokenizer puts before a raw prompt: the attention sink of many models.
std::string first_token(const Tokenizer& tokenizer) {
  const auto id = tokenizer.first_id();
  return id ? std::string(tokenizer.piece(*id)) : "(nothing)";
}

ordered_json inspect_model(const fs::path& folder, bool has_gate) {
  const ModelFolder model = ModelFolder::open(folder);
  const ModelConfig& config = model.config;
  const std::vector<std::int32_t> windows = config.windows();
  const auto n_local = windows.size() - static_cast<std::size_t>(std::ranges::count(windows, 0));
  // A local layer's cache stops growing when its window is full.
  const double kv_bytes =
      2.0 * (config.n_layers - static_cast<double>(n_local)) * config.n_kv_heads * config.head_dim * 2;
  ordered_json result = {{"kind", "model"},
                         {"architecture", config.family->architecture},
                         {"dtype", config.dtype},
                         {"layers", config.n_layers},
                         {"heads", config.n_heads},
                         {"kv_heads", config.n_kv_heads},
                         {"head_dim", config.head_dim},
                         {"hidden_size", config.hidden_size},
                         {"vocab_size", config.vocab_size},
                         {"max_positions", config.max_positions},
                         {"tied_embeddings", config.tie_word_embeddings},
                         {"tokenizer_size", model.tokenizer.vocab_size()},
                         {"raw_prompt_begins_with", first_token(model.tokenizer)},
                         {"runs_on", devices_of(config)},
                         {"weights_hash", model.weights.hash()},
                         {"kv_cache_bytes_per_token_16bit", kv_bytes}};
  if (n_local > 0) result["layer_windows"] = windows;  // 0: a global layer
  if (!model.warnings.empty()) result["warnings"] = model.warnings;
  for (const std::string& line : model.warnings) print_warning(line);
  std::error_code error;
  const fs::path scorer = folder / "kvpop_scorer.json";
  result["scorer"] = fs::exists(scorer, error) ? ordered_json::parse(read_json(scorer).dump()) : ordered_json();
  result["gate"] = has_gate ? gate_summary(load_gate(folder, config)) : ordered_json();
  return result;
}

ordered_json inspect_weights(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  ordered_json tensors = ordered_json::object();
  std::int64_t elements = 0;
  for (const auto& [name, entry] : file.tensors()) {
    tensors[escape_for_terminal(name)] = {{"dtype", entry.type_name}, {"shape", entry.shape}};
    elements += entry.n_elements();
  }
  return {{"kind", "weights"},
          {"tensors", file.tensors().size()},
          {"parameters", elements},
          {"bytes", file.file_size()},
          {"entries", tensors}};
}

/// Means of the layers, and over how many queries each one goes.
ordered_json inspect_output_error(const RunRecord& run) {
  if (run.output_error.empty()) return "not measured";
  ordered_json means = ordered_json::array(), counts = ordered_json::array();
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    const OutputErrorMean mean = output_error_curve(run, layer).mean;
    means.push_back(mean.n_queries > 0 ? ordered_json(mean.value) : ordered_json());
    counts.push_back(mean.n_queries);
  }
  return {{"by_layer", means},
          {"queries", counts},
          {"heads", output_error_note(run, run.queries() - 1)},
          {"definition", find_metric("output_error")->definition}};
}

/// Means over all heads and queries at which something was chosen, of every oracle that the recorded masses allow.
ordered_json inspect_oracles(const RunRecord& run) {
  ordered_json table = ordered_json::object();
  for (const bool pooled : {false, true}) {
    for (const OracleWeight weight : {OracleWeight::mass, OracleWeight::value, OracleWeight::output}) {
      for (const OracleMass mass : {OracleMass::mean, OracleMass::sum, OracleMass::rms, OracleMass::max}) {
        OracleSpec spec = run.oracle;
        spec.mass = mass, spec.weight = weight, spec.pooled = pooled;
        const Oracle oracle(run, spec);
        if (!oracle.is_known()) continue;
        const OracleMean mean = mean_of(oracle);
        table[spec.title()] = {{"label", recall_label(OracleOf::own, mean)},
                               {"recall", number_or_null(mean.recall)},
                               {"chance", number_or_null(mean.chance)},
                               {"above_chance", number_or_null(mean.above_chance())},
                               {"mass_recall", number_or_null(mean.mass_recall)},
                               {"mass_kept", number_or_null(mean.mass_kept)},
                               {"k", number_or_null(mean.capacity)},
                               {"n", mean.n}};
      }
    }
  }
  return table;
}

/// How the runs ended: "complete", or a line for each that was cancelled or failed. The status of the file says nothing of it.
ordered_json inspect_ends(TraceReader& trace) {
  const TraceInfo& info = trace.info();
  ordered_json ends = ordered_json::object();
  if (const int complete = info.n_runs - static_cast<int>(info.cut_runs.size()); complete > 0)
    ends["complete"] = complete;
  for (const int run : info.cut_runs) ends["run " + std::to_string(run)] = describe_end(trace.load(run));
  return ends;
}

ordered_json inspect_run(const RunRecord& run) {
  ordered_json changes = ordered_json::array();
  for (const PolicyChange& change : run.changes)
    changes.push_back("from query " + std::to_string(change.q) + " on: " + change.policy.to_string());
  return {{"ended", describe_end(run)},
          {"policy", run.policy.to_string()},
          {"policy_title", policy_of(run.policy).info.title},
          {"recorder", run.recorder},
          {"density", describe_density(run.policy, run.thresholds())},
          {"thresholds", run.thresholds()},
          {"budgets", run.budgets()},
          {"changes", changes},
          {"scorer", run.scorer.text},
          {"oracle", run.oracle.to_string()},
          {"page_reads", run.reads.size()},
          {"oracles", inspect_oracles(run)},
          {"recall_definition", kRecallDefinition},
          {"output_error", inspect_output_error(run)}};
}

/// What a person has noted of the runs, from the file beside the trace; a text where that file cannot be read. Null: none.
ordered_json inspect_notes(TraceReader& trace, const fs::path& path) {
  ordered_json list = ordered_json::array();
  try {
    for (const RunNotes& notes : read_notes(path)) {
      ordered_json one = {{"run", notes.run}};
      std::optional<RunRecord> run;
      if (notes.run < trace.info().n_runs) run = trace.load(notes.run);
      if (!run || ids_hash(*run) != notes.ids) {
        run.reset();
        one["of"] = "not the run that the trace has there";
      }
      if (!notes.name.empty()) one["name"] = notes.name;
      if (!notes.note.empty()) one["note"] = notes.note;
      for (const Pin& pin : notes.pins) {
        ordered_json line = {
            {"letter", pin_letter(pin.letter)}, {"layer", pin.layer}, {"kv_head", pin.kv_head}, {"token", pin.token}};
        if (run && pin.token < run->n_tokens())
          line["text"] = std::string(run->pieces[static_cast<std::size_t>(pin.token)]);
        if (!pin.note.empty()) line["note"] = pin.note;
        one["pins"].push_back(line);
      }
      list.push_back(one);
    }
  } catch (const Error& error) {
    if (error.parts().file != notes_file(path).string()) throw;
    return error.what();
  }
  return list.empty() ? ordered_json() : list;
}

/// "run 0, pin a", "L3 H1, token 812 " Thus": a note": lines for people.
ordered_json notes_lines(const ordered_json& notes) {
  if (!notes.is_array()) return notes;
  ordered_json lines = ordered_json::object();
  for (const ordered_json& run : notes) {
    const std::string name = "run " + std::to_string(run["run"].get<int>());
    for (const char* key : {"of", "name", "note"}) {
      if (run.contains(key)) lines[name + ", " + key] = run[key];
    }
    for (const ordered_json& pin : run.value("pins", ordered_json::array())) {
      std::string line = "L" + std::to_string(pin["layer"].get<int>()) + " H" +
                         std::to_string(pin["kv_head"].get<int>()) + ", token " +
                         std::to_string(pin["token"].get<int>());
      if (pin.contains("text")) line += " " + in_quotes(pin["text"].get<std::string>());
      if (pin.contains("note")) line += ": " + pin["note"].get<std::string>();
      lines[name + ", pin " + pin["letter"].get<std::string>()] = line;
    }
  }
  return lines;
}

/// A trace as lines for people.
ordered_json trace_lines(const ordered_json& trace) {
  ordered_json lines = ordered_json::object();
  for (const auto& [key, value] : trace.items()) lines[key == "status" ? "file" : key] = value;  // runs have one too
  if (lines.contains("notes")) lines["notes"] = notes_lines(lines["notes"]);
  if (lines.contains("first_run") && lines["first_run"]["oracles"].empty()) {
    const std::string ended = lines["first_run"]["ended"];
    lines["first_run"]["oracles"] =
        "none: the run " + (ended.starts_with("complete") ? "recorded no future attention" : "was " + ended);
  }
  return lines;
}

ordered_json inspect_trace_file(const fs::path& path) {
  TraceReader trace = open_trace(path);
  const TraceInfo& info = trace.info();
  const ModelInfo& model = info.model;
  ordered_json result = {{"kind", "trace"},
                         {"version", info.version},
                         {"status", info.status},
                         {"runs", info.n_runs},
                         {"planned_runs", info.planned_runs},
                         {"created_by", info.created_by},
                         {"git_revision", info.git_revision},
                         {"model", model.name},
                         {"architecture", model.architecture},
                         {"layers", model.n_layers},
                         {"kv_heads", model.n_kv_heads},
                         {"head_dim", model.head_dim},
                         {"dtype", model.dtype},
                         {"device", model.device},
                         {"scorer", model.scorer},
                         {"weights_hash", model.weights_hash}};
  if (const std::string old = trace::old_numbers(info.version); !old.empty()) result["old_numbers"] = old;
  if (const CaptureInfo& capture = info.capture; capture.n_prompts > 0) {
    result["prompts"] = capture.n_prompts;
    result["shard"] = shard_text(capture);
    result["request"] = capture.request;
  }
  if (!info.shards.empty()) result["shards"] = info.shards;
  result["page_reads"] = info.page_reads;
  result["runs_with_changes"] = info.changed_runs;
  if (ordered_json notes = inspect_notes(trace, path); !notes.is_null()) result["notes"] = std::move(notes);
  if (info.n_runs > 0) {
    result["ended"] = inspect_ends(trace);
    result["first_run"] = inspect_run(trace.load(0));
  }
  return result;
}

ordered_json inspect_study(const StudyTable& study) {
  ordered_json columns = ordered_json::object(), arrays = ordered_json::object();
  for (const StudyColumn& column : study.columns) {
    columns[column.name] = column.meaning + (column.units.empty() ? "" : " (" + column.units + ")");
  }
  for (const StudyArray& array : study.arrays) {
    arrays[array.name] = {{"axes", array.axes}, {"shape", array.shape}, {"meaning", array.meaning}};
  }
  return {{"kind", "study"},
          {"study", study.kind},
          {"points", study.n_points()},
          {"columns", columns},
          {"arrays", arrays},
          {"request", ordered_json::parse(study.request)},
          {"facts", ordered_json::parse(study.facts)}};
}

/// A trace or a study. What is neither is told as a trace that it should have been; so is what crashed both readers.
ordered_json inspect_hdf5(const fs::path& path) {
  try {
    return inspect_trace_file(path);
  } catch (const Error& of_trace) {
    if (of_trace.code() != ExitCode::bad_input) throw;
    std::optional<StudyTable> study;
    try {
      study = read_study_if_one("/proc/self/exe", path);
    } catch (const Error& of_study) {
      // A study, but a damaged one; or nothing that says what the file is.
      if (!of_study.parts().where.empty() || of_study.code() != ExitCode::bad_input) throw;
    }
    if (!study) throw of_trace;
    return inspect_study(*study);
  }
}

int inspect(const Arguments& arguments) {
  fs::path path = arguments.positionals()[0];
  std::error_code error;
  if (!weightless_gate(path) && !fs::exists(path, error)) {
    const auto named = find_model(path.string());
    if (!named)
      throw Error(
          {.file = path.string(), .found = "no such file or folder", .hint = "kvscope models lists the model names"});
    path = *named;
  }
  // Left to the end of the process: to take a large value apart this library allocates, and a destructor that gets no memory
  // calls terminate().
  static ordered_json& result = *new ordered_json;
  path = LoraFile::folder_of(path);
  const auto gate = gate_format(path);
  const bool has_adapter = LoraFile::is_there(path);
  if (has_adapter && !gate && !fs::exists(path / "config.json", error)) {
    result = adapter_summary(path);  // a tokenizer beside it is common
  } else if (fs::is_directory(path, error) && is_model(path, gate)) {
    result = inspect_model(path, gate.has_value());
  } else if (gate) {
    result = gate_summary(load_gate(path));
    if (has_adapter) result["adapter"] = adapter_summary(path);
  } else if (path.extension() == ".safetensors") {
    result = inspect_weights(path);
  } else if (path.extension() == ".json") {
    result = {{"kind", "json"}, {"content", ordered_json::parse(read_json(path).dump())}};
  } else {
    result = inspect_hdf5(path);
  }
  if (arguments.has("json")) {
    write_json_line(result);
  } else {
    if (result.contains("raw_prompt_begins_with"))
      result["a raw prompt begins with:"] = std::move(result["raw_prompt_begins_with"]);
    for (const char* key : {"raw_prompt_begins_with", "warnings"}) result.erase(key);  // the latter are on stderr
    print_lines(result["kind"] == "trace" ? trace_lines(result) : result);
  }
  return 0;
}

}  // namespace

extern const CommandSpec inspect_command = {
    "inspect",
    "PATH [--json]",
    "describe a model, gate, adapter, weights file, trace or study",
    "PATH is a model's folder, a gate in any supported format or a LoRA adapter (docs/reference/gates.md), a "
    ".safetensors file, a .json file, a trace (with the notes made in the window), or a study "
    "(docs/reference/studies.md). For models it reads headers, not weights.",
    "  kvscope inspect samples/models/kvscope-tiny",
    {1, 1},
    kInspectOptions,
    inspect};

}  // namespace kvscope::app

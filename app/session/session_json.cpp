// A session as JSON: what tests and scripts see of it, and what the next start takes up again.

#include <nlohmann/json.hpp>

#include "app/session/session.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

std::string_view to_string(Banner::Kind kind) {
  return kind == Banner::Kind::error ? "error" : kind == Banner::Kind::warning ? "warning" : "info";
}

json run_json(const RunRecord& run) {
  return {{"policy", run.policy.to_string()},
          {"status", kvscope::to_string(run.status)},
          {"message", run.message},
          {"n_tokens", run.n_tokens()},
          {"prompt_len", run.prompt_len},
          {"n_positions", run.n_positions},
          {"oracle_horizon", run.oracle_horizon}};
}

json shown_json(const views::ShownRun* shown, int id) {
  if (!shown) return nullptr;
  json result = run_json(*shown->run);
  result["id"] = shown->preview ? 0 : id;
  result["label"] = shown->label;
  result["preview"] = shown->preview;
  return result;
}

json selection_json(const views::Selection& selection) {
  return {{"layer", selection.layer},
          {"kv_head", selection.kv_head},
          {"token", selection.token},
          {"q", selection.q.value_or(-1)},
          {"follow", !selection.q},
          {"colour", static_cast<int>(selection.colour)},
          {"metric", static_cast<int>(selection.metric)}};
}

// A field that is not there keeps its default.
struct ReadField {
  const JsonObject& object;
  void operator()(std::string_view name, double& value, FieldRange range) const {
    value = object.number_or(name, value, range.min, range.max);
  }
  void operator()(std::string_view name, int& value, FieldRange range) const {
    value = static_cast<int>(
        object.integer_or(name, value, static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
  }
  void operator()(std::string_view name, std::uint64_t& value, AnyValue) const {
    value = static_cast<std::uint64_t>(object.integer_or(name, static_cast<std::int64_t>(value), 0, INT64_MAX));
  }
};

std::vector<std::string> texts(const JsonObject& object, const char* key) {
  std::vector<std::string> list;
  if (!object.has(key) || !object.raw()[key].is_array()) return list;
  for (const auto& item : object.raw()[key]) {
    if (item.is_string()) list.push_back(item.get<std::string>());
  }
  return list;
}

Parameters parameters_of(const JsonObject& object) {
  Parameters parameters;
  parameters.prompt = object.text_or("prompt", "");
  parameters.raw = object.boolean_or("raw", true);
  parameters.policy = PolicySpec::parse(object.text("policy"));
  parameters.max_tokens = static_cast<int>(object.integer_or("max_tokens", 64, 0, 1 << 24));
  if (object.has("sampling")) {
    const JsonObject sampling(object.raw()["sampling"], object.file(), "sampling.");
    visit_fields(parameters.sampling, ReadField{sampling});
  }
  if (object.has("chat")) parameters.chat = conversation_from(JsonObject(object.raw()["chat"], object.file(), "chat."));
  parameters.stop = texts(object, "stop");
  return parameters;
}

std::vector<std::string> gate_names(const ModelGates& gates) {
  std::vector<std::string> names;
  for (const GateFacts& facts : gates.found()) names.push_back(facts.gate.name);
  return names;
}

json parameters_json(const Parameters& parameters) {
  return {{"prompt", parameters.prompt},
          {"raw", parameters.raw},
          {"policy", parameters.policy.written()},
          {"max_tokens", parameters.max_tokens},
          {"sampling", protocol::to_json(parameters.sampling)},
          {"chat", to_json(parameters.chat)},
          {"stop", parameters.stop}};
}

}  // namespace

nlohmann::json Session::state() const {
  json runs = json::array();
  for (const RunEntry& entry : runs_.all()) {
    json run = run_json(*entry.run);
    run["id"] = entry.id;
    run["trace"] = entry.trace_path;
    runs.push_back(run);
  }
  json banners = json::array();
  for (const Banner& banner : messages_.banners()) {
    banners.push_back(
        {{"id", banner.id}, {"kind", to_string(banner.kind)}, {"text", banner.text}, {"command", banner.command}});
  }
  json parameters = parameters_json(next_run_.parameters());
  parameters["prompt_tokens"] = next_run_.prompt_tokens();
  const TaskProgress& progress = engine_.progress();
  return {{"engine", app::to_string(engine_.state())},
          {"engine_pid", engine_.pid()},
          {"model", engine_.model() ? json(engine_.model()->name) : json()},
          {"gates", gate_names(gates_)},
          {"gate", used_gate() ? json(used_gate()->gate.name) : json()},
          {"running", run_in_progress()},
          {"runs", runs},
          {"a", shown_json(shown_a(), a() ? a()->id : 0)},
          {"b", shown_json(shown_b(), b() ? b()->id : 0)},
          {"divergence", divergence()},
          {"selection", selection_json(selection_)},
          {"parameters", parameters},
          {"preview", {{"shown", preview_.shown()}, {"pending", preview_.pending()}, {"note", preview_.note()}}},
          {"progress",
           {{"phase", progress.phase}, {"value", progress.value}, {"max", progress.max}, {"line", progress.line()}}},
          {"files_busy", files_.busy()},
          {"banners", banners},
          {"notice", messages_.notice()}};
}

nlohmann::json Session::to_json() const {
  json traces = json::array();
  for (const RunEntry& entry : runs_.all()) {
    if (!entry.trace_path.empty() && (traces.empty() || traces.back() != entry.trace_path))
      traces.push_back(entry.trace_path);
  }
  json session = parameters_json(next_run_.parameters());
  session["version"] = 1;
  session["model"] = engine_.model_path();
  session["layer"] = selection_.layer;
  session["kv_head"] = selection_.kv_head;
  session["traces"] = traces;
  session["recent"] = files_.recent();
  return session;
}

// What another program or an editor wrote is checked like any other file; nothing is taken unless all of it is right.
void Session::restore(const nlohmann::json& json, const std::string& file) {
  const JsonObject object(json, file);
  object.integer("version", 1, 1);
  const Parameters parameters = parameters_of(object);
  const auto layer = static_cast<int>(object.integer_or("layer", 0, 0, 1 << 16));
  const auto kv_head = static_cast<int>(object.integer_or("kv_head", 0, 0, 1 << 16));
  next_run_.set(parameters);
  selection_.layer = layer;
  selection_.kv_head = kv_head;
  files_.set_recent(texts(object, "recent"));
  for (const std::string& trace : texts(object, "traces")) open_trace(trace);
  clamp_selection();
}

}  // namespace kvscope::app

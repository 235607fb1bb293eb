// A session as JSON: what tests and scripts see of it, and what the next start takes up again.

#include <nlohmann/json.hpp>

#include "app/session/session.h"
#include "engine/core/study/retention_metrics.h"
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

json sampling_json(const SamplingSpec& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repetition_penalty", sampling.repetition_penalty},
          {"seed", sampling.seed}};
}

}  // namespace

nlohmann::json Session::state() const {
  json runs = json::array();
  for (const RunEntry& entry : runs_) {
    json run = run_json(*entry.run);
    run["id"] = entry.id;
    run["trace"] = entry.trace_path;
    runs.push_back(run);
  }
  json banners = json::array();
  for (const Banner& banner : banners_) {
    banners.push_back(
        {{"id", banner.id}, {"kind", to_string(banner.kind)}, {"text", banner.text}, {"command", banner.command}});
  }
  return {{"engine", app::to_string(engine_state_)},
          {"engine_pid", engine_ && !engine_->ended() ? engine_->pid() : 0},
          {"model", model_ ? json(model_->name) : json()},
          {"running", run_in_progress()},
          {"runs", runs},
          {"a", shown_json(shown_a(), a_id_)},
          {"b", shown_json(shown_b(), b_id_)},
          {"divergence", divergence()},
          {"selection", selection_json(selection_)},
          {"parameters",
           {{"prompt", parameters_.prompt},
            {"prompt_tokens", prompt_tokens_},
            {"policy", parameters_.policy.to_string()},
            {"max_tokens", parameters_.max_tokens},
            {"sampling", sampling_json(parameters_.sampling)},
            {"raw", parameters_.raw}}},
          {"preview", {{"shown", preview_ != nullptr}, {"pending", preview_pending_}, {"note", preview_note_}}},
          {"progress", {{"phase", progress_.phase}, {"value", progress_.value}, {"max", progress_.max}}},
          {"files_busy", files_.busy()},
          {"banners", banners},
          {"notice", notice_}};
}

nlohmann::json Session::to_json() const {
  json traces = json::array();
  for (const RunEntry& entry : runs_) {
    if (!entry.trace_path.empty() && (traces.empty() || traces.back() != entry.trace_path))
      traces.push_back(entry.trace_path);
  }
  return {{"version", 1},
          {"model", model_path_},
          {"prompt", parameters_.prompt},
          {"raw", parameters_.raw},
          {"policy", parameters_.policy.to_string()},
          {"max_tokens", parameters_.max_tokens},
          {"sampling", sampling_json(parameters_.sampling)},
          {"layer", selection_.layer},
          {"kv_head", selection_.kv_head},
          {"traces", traces},
          {"recent", recent_}};
}

// What another program or an editor wrote is checked like any other file; nothing is taken unless all of it is right.
void Session::restore(const nlohmann::json& json, const std::string& file) {
  const JsonObject object(json, file);
  object.integer("version", 1, 1);
  Parameters parameters;
  parameters.prompt = object.text_or("prompt", "");
  parameters.raw = object.boolean_or("raw", true);
  parameters.policy = PolicySpec::parse(object.text("policy"));
  parameters.max_tokens = static_cast<int>(object.integer_or("max_tokens", 64, 0, 1 << 24));
  if (object.has("sampling")) {
    const JsonObject sampling(json["sampling"], file, "sampling.");
    parameters.sampling.temperature = sampling.number_or("temperature", 0, 0, 100);
    parameters.sampling.top_k = static_cast<int>(sampling.integer_or("top_k", 0, 0, 1 << 24));
    parameters.sampling.top_p = sampling.number_or("top_p", 1, 0, 1);
    parameters.sampling.min_p = sampling.number_or("min_p", 0, 0, 1);
    parameters.sampling.repetition_penalty = sampling.number_or("repetition_penalty", 1, 0.01, 100);
    parameters.sampling.seed = static_cast<std::uint64_t>(sampling.integer_or("seed", 0, 0, INT64_MAX));
  }
  const auto texts = [&](const char* key) {
    std::vector<std::string> list;
    if (!object.has(key) || !json[key].is_array()) return list;
    for (const auto& item : json[key]) {
      if (item.is_string()) list.push_back(item.get<std::string>());
    }
    return list;
  };
  parameters_ = parameters;
  count_prompt_tokens();
  selection_.layer = static_cast<int>(object.integer_or("layer", 0, 0, 1 << 16));
  selection_.kv_head = static_cast<int>(object.integer_or("kv_head", 0, 0, 1 << 16));
  const auto recent = texts("recent");
  recent_.assign(recent.begin(), recent.end());
  for (const std::string& trace : texts("traces")) open_trace(trace);
  clamp_selection();
  changed();
}

}  // namespace kvscope::app

// A session as JSON: what tests and scripts see of it.

#include <nlohmann/json.hpp>

#include "app/session/session.h"
#include "engine/core/protocol/protocol.h"

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

/// Of the text that is on show.
json pins_json(const views::Selection& selection, const views::ShownRun* shown) {
  json list = json::array();
  if (!shown) return list;
  for (const PlacedPin& placed : placed_pins(selection.pins, *shown->run)) {
    list.push_back(pin_json(placed.pin));
    list.back()["place"] = placed.place == PinPlace::here ? "here" : pin_place_text(placed.place);
  }
  return list;
}

json selection_json(const views::Selection& selection) {
  return {{"layer", selection.layer},
          {"kv_head", selection.kv_head},
          {"token", selection.token},
          {"q", selection.q.value_or(-1)},
          {"follow", !selection.q},
          {"colour", static_cast<int>(selection.colour)},
          {"metric", static_cast<int>(selection.metric)},
          {"find", selection.find},
          {"runs", selection.runs}};
}

json studies_json(const Studies& studies, const views::StudyLook& look) {
  json list = json::array();
  int shown = 0;
  for (const views::OpenStudy& study : studies.open_studies().all) {
    if (study.path == look.shown) shown = study.id;
    list.push_back({{"id", study.id},
                    {"path", study.path},
                    {"kind", study.table ? study.table->kind : ""},
                    {"points", study.table ? study.table->n_points() : 0},
                    {"why_not", study.why_not},
                    {"stale", study.stale}});
  }
  const views::PointRun& run = studies.open_studies().run;
  json result = {{"open", list},
                 {"shown", shown},
                 {"point", look.point},
                 {"piece", look.piece},
                 {"known", studies.knows_point()},
                 {"why_not", run.why_not},
                 {"remedy", run.remedy},
                 {"from", run.from},
                 {"notes", run.notes}};
  if (const views::OpenStudy* study = studies.open_studies().shown(look)) {
    const views::StudyAxes axes = views::study_axes(*study->table, look);
    result["axes"] = {{"x", axes.x},         {"y", axes.y},         {"by", axes.by},
                      {"panel", axes.panel}, {"where", axes.where}, {"front", look.front && axes.no_front.empty()},
                      {"log_x", look.log_x}, {"log_y", look.log_y}, {"smooth", look.smooth}};
  }
  return result;
}

json study_jobs_json(const StudyJobs& jobs) {
  json list = json::array();
  for (const StudyJob& job : jobs.all()) {
    list.push_back({{"id", job.id},
                    {"command", job.command_line()},
                    {"state", to_string(job.state)},
                    {"output", job.output()},
                    {"phase", job.progress.phase},
                    {"value", job.progress.value},
                    {"max", job.progress.max},
                    {"message", job.message}});
  }
  return list;
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
          {"output_error", parameters.output_error},
          {"sampling", protocol::to_json(parameters.sampling)},
          {"chat", to_json(parameters.chat)},
          {"stop", parameters.stop},
          {"budgets", parameters.budgets}};
}

}  // namespace

nlohmann::json Session::state() const {
  json runs = json::array();
  for (const RunEntry& entry : runs_.all()) {
    json run = run_json(*entry.run);
    run["id"] = entry.id;
    run["trace"] = entry.trace_path;
    run["name"] = entry.name;
    const auto note = selection_.run_notes.find(entry.id);
    run["note"] = note == selection_.run_notes.end() ? "" : note->second;
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
  // To scripts that wait for a model it is there once a run may begin.
  const bool reads = engine_.state() == EngineState::ready && model_.reads_folder();
  return {{"engine", app::to_string(reads ? EngineState::loading : engine_.state())},
          {"engine_pid", engine_.pid()},
          {"model", engine_.model() && !reads ? json(engine_.model()->name) : json()},
          {"gates", gate_names(policy_.gates())},
          {"gate", policy_.gate() ? json(policy_.gate()->gate.name) : json()},
          {"running", run_in_progress()},
          {"runs", runs},
          {"removed", runs_.removed_ids()},
          {"a", shown_json(runs_.shown_a(), runs_.a_id())},
          {"b", shown_json(runs_.shown_b(), runs_.b_id())},
          {"divergence", runs_.divergence()},
          {"selection", selection_json(selection_)},
          {"pins", pins_json(selection_, runs_.shown_a())},
          {"studies", studies_json(studies_, selection_.study)},
          {"study_jobs", study_jobs_json(study_jobs_)},
          {"parameters", parameters},
          {"preview", {{"shown", preview_.shown()}, {"pending", preview_.pending()}, {"note", preview_.note()}}},
          {"progress",
           {{"phase", progress.phase},
            {"value", progress.value},
            {"max", progress.max},
            {"line", engine_.progress_line()}}},
          {"files_busy", files_.busy() || remote_.busy()},
          {"banners", banners},
          {"notice", messages_.notice()}};
}

}  // namespace kvscope::app

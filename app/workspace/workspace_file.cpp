#include "app/workspace/workspace_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "app/workspace/pins_json.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxWorkspaceBytes = 256u << 20;  // a prompt of 16 MiB, escaped
constexpr std::size_t kMaxRuns = 4096, kMaxWorkspaceTexts = 64, kMaxStudies = 256;
constexpr std::size_t kHashedTokens = 4096;

json run_json(const SavedRun& run) {
  json object = {{"id", run.id}, {"own", run.own}, {"fingerprint", run.fingerprint}};
  if (!run.name.empty()) object["name"] = run.name;
  if (!run.trace.empty()) object["trace"] = run.trace, object["trace_run"] = run.trace_run;
  return object;
}

std::vector<std::string> some_texts(const JsonObject& object, const char* key) {
  std::vector<std::string> texts = object.texts(key);
  if (texts.size() > kMaxWorkspaceTexts) texts.resize(kMaxWorkspaceTexts);
  return texts;
}

SavedRun run_from_json(const json& value, const std::string& file) {
  const JsonObject object(value, file, "runs.");
  SavedRun run;
  run.id = static_cast<int>(object.integer("id", 1, kMaxRunId));
  run.own = object.boolean_or("own", false);
  run.trace = object.text_or("trace", "");
  run.trace_run = static_cast<int>(object.integer_or("trace_run", 0, 0, kMaxPositions));
  run.fingerprint = object.text_or("fingerprint", "");
  run.name = object.text_or("name", "");
  if (!run.own && run.trace.empty())
    throw Error({.file = file, .where = "runs", .found = "a run without a file", .expected = "own or trace"});
  return run;
}

/// Gates, or the words of a command that has some: what starts a scorer over a pipe is neither written nor believed.
std::vector<std::string> in_files(std::vector<std::string> words) {
  for (std::string& word : words) word = gate_in_files(word);
  return words;
}

json study_json(const StudyJob& job) {
  return {{"words", in_files(job.words)}, {"folder", job.folder},    {"state", to_string(job.state)},
          {"value", job.progress.value},  {"max", job.progress.max}, {"message", job.message}};
}

std::vector<StudyJob> studies_from_json(const json& list, const std::string& file) {
  if (!list.is_array() || list.size() > kMaxStudies)
    throw Error({.file = file, .where = "studies", .found = "not a list of studies"});
  std::vector<StudyJob> jobs;
  for (const json& value : list) {
    const JsonObject object(value, file, "studies.");
    StudyJob job{.words = in_files(object.texts("words")), .folder = object.text("folder")};
    if (job.words.empty()) throw Error({.file = file, .where = "studies.words", .found = "empty"});
    const std::string state = object.text("state");
    for (const auto known : {StudyJob::State::running, StudyJob::State::stopping, StudyJob::State::stopped,
                             StudyJob::State::failed, StudyJob::State::complete})
      if (state == to_string(known)) job.state = known;
    job.progress.value = object.number_or("value", 0, 0, 1e15);
    job.progress.max = object.number_or("max", 0, 0, 1e15);
    job.message = object.text_or("message", "");
    jobs.push_back(std::move(job));
  }
  return jobs;
}

json choice_json(const ModelChoice& choice) {
  json object = {{"model", choice.model}, {"raw", choice.raw}, {"gates", in_files(choice.gates)}};
  put_policy(object, choice.policy);
  return object;
}

std::vector<ModelChoice> choices_from_json(const json& list, const std::string& file) {
  if (!list.is_array() || list.size() > ModelChoice::kMost)
    throw Error({.file = file, .where = "choices", .found = "not a list of model settings"});
  std::vector<ModelChoice> choices;
  for (const json& value : list) {
    const JsonObject object(value, file, "choices.");
    choices.push_back({.model = object.text("model"),
                       .policy = take_policy(value),
                       .raw = object.boolean_or("raw", true),
                       .gates = some_texts(object, "gates")});
  }
  return choices;
}

}  // namespace

// The last tokens tell runs apart: of prompts that begin alike the answers differ. A run of 131k is not hashed each second.
std::string fingerprint(const RunRecord& run) {
  Fnv1a hash;
  hash.add_word(run.ids.size());
  for (const std::int32_t id : std::span(run.ids).last(std::min(run.ids.size(), kHashedTokens)))
    hash.add_word(static_cast<std::uint32_t>(id));
  return hash.hex();
}

bool has_preview(const Session& session) { return session.preview().shown() || session.preview().pending(); }

WorkspaceFile workspace_file(const Session& session, const WorkspaceState& state, const std::set<int>& wanted) {
  WorkspaceFile file{.state = state,
                     .choices = session.model().choices(),
                     .recent = {session.files().recent().begin(), session.files().recent().end()},
                     .place = session.files().place(),
                     .next_run = session.runs().next_id(),
                     .preview = has_preview(session),
                     .studies = session.study_jobs().all()};
  file.state.removed.clear();  // nothing leads back to them after the end
  for (const RunEntry& entry : session.runs().all()) {
    const bool own = entry.own && wanted.contains(entry.id);
    if (!own && entry.trace_path.empty()) continue;
    std::error_code error;
    const std::string trace =
        entry.trace_path.empty() ? "" : std::filesystem::absolute(entry.trace_path, error).string();
    file.runs.push_back({entry.id, own, trace, entry.trace_run, own ? "" : fingerprint(*entry.run), entry.name});
  }
  return file;
}

std::string to_text(const WorkspaceFile& file) {
  json runs = json::array();
  for (const SavedRun& run : file.runs) runs.push_back(run_json(run));
  json studies = json::array();
  for (const StudyJob& job : file.studies) studies.push_back(study_json(job));
  json choices = json::array();
  for (const ModelChoice& choice : file.choices) choices.push_back(choice_json(choice));
  const json object = {{"version", 1},
                       {"state", to_json(file.state)},
                       {"model", file.model},
                       {"gates", in_files(file.gates)},
                       {"choices", choices},
                       {"recent", file.recent},
                       {"place", file.place},
                       {"runs", runs},
                       {"next_run", file.next_run},
                       {"preview", file.preview},
                       {"studies", studies}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

WorkspaceFile read_workspace_file(const std::filesystem::path& path) {
  const json value = read_json(path, {.max_bytes = kMaxWorkspaceBytes});
  const JsonObject object(value, path.filename().string());
  object.integer("version", 1, 1);
  if (!object.has("state")) throw Error({.file = object.file(), .where = "state", .found = "missing"});
  WorkspaceFile file{.state = state_from_json(value["state"], object.file()),
                     .model = object.text_or("model", ""),
                     .gates = some_texts(object, "gates"),
                     .choices = choices_from_json(value.value("choices", json::array()), object.file()),
                     .recent = some_texts(object, "recent"),
                     .place = object.text_or("place", ""),
                     .next_run = static_cast<int>(object.integer_or("next_run", 1, 1, kMaxRunId)),
                     .preview = object.boolean_or("preview", false),
                     .studies = studies_from_json(value.value("studies", json::array()), object.file())};
  const json runs = value.value("runs", json::array());
  if (!runs.is_array() || runs.size() > kMaxRuns)
    throw Error({.file = object.file(), .where = "runs", .found = "not a list of runs"});
  for (const json& run : runs) file.runs.push_back(run_from_json(run, object.file()));
  return file;
}

}  // namespace kvscope::app

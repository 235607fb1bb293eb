#include "app/studies/sweep/sweep_journal.h"

#include <algorithm>
#include <set>

#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSweepMark = "kvscope_sweep";  // of the first line, with the version of the form

ordered_json first_line(const ordered_json& settings) { return {{kSweepMark, 1}, {"settings", settings}}; }

[[noreturn]] void refuse_journal(const fs::path& path) {
  throw Error(
      {.file = path.string(), .found = "not the answers of a sweep", .hint = "use another -o, or remove the file"});
}

/// What an answer depends on besides its group, its key and what EvalFacts has.
ordered_json settings_of(const SweepPlan& plan) {
  const EvalRequest& request = plan.request;
  ordered_json settings = {{"device", request.device},
                           {"dtype", request.dtype},
                           {"pieces", request.pieces},
                           {"length", request.length},
                           {"chat", request.chat},
                           {"oracle", request.oracle},
                           {"output_error", request.output_error}};
  if (request.temperature > 0) settings.update({{"temperature", request.temperature}, {"top_p", request.top_p}});
  return settings;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& where, const std::string& found,
                         const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .file = path.string(),
               .where = where,
               .found = "answers of another sweep: " + found,
               .expected = expected,
               .hint = "remove it to start over, or give another -o"});
}

std::string name_of(const std::string& input) { return input.substr(0, input.rfind(' ')); }

/// "heldout.txt 1f2e..." of each name; in two lists that both have it, the hashes must be the same. Of groups that are not the
/// same only `names` count: two gates may have one name.
void check_inputs(const std::vector<std::string>& there, const std::vector<std::string>& now,
                  const std::vector<std::string>* names, const fs::path& path) {
  for (const std::string& input : now) {
    if (names && std::ranges::find(*names, name_of(input)) == names->end()) continue;
    const auto other = std::ranges::find(there, name_of(input), name_of);
    if (other != there.end() && *other != input) {
      refuse(path, "inputs", "\"" + *other + "\"", "\"" + input + "\", as the file is now");
    }
  }
}

std::vector<std::string> shared_names(const SweepPlan& plan) {
  std::vector<std::string> names = {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                    "filler"};
  for (const std::string& text : plan.request.texts) names.push_back(fs::path(text).filename().string());
  names.push_back(fs::path(plan.request.filler).filename().string());
  return names;
}

}  // namespace

fs::path journal_path(const fs::path& target, const Shard& shard) {
  std::string name = target.string() + ".answers";
  if (shard.of > 1) name += "." + std::to_string(shard.index) + "-of-" + std::to_string(shard.of);
  return name;
}

std::vector<fs::path> other_journals(const fs::path& target, const fs::path& own) {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string beginning = target.filename().string() + ".answers";
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(beginning) && name != own.filename().string()) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

SweepJournal::SweepJournal(fs::path path, const std::vector<fs::path>& others, const SweepPlan& plan)
    : journal_(std::move(path)), settings_(settings_of(plan)), shared_(shared_names(plan)) {
  for (const fs::path& other : others) read(other);
  std::error_code error;
  const fs::path& own = journal_.path();
  if (fs::exists(own, error) && fs::file_size(own, error) > 0) read(own);
}

std::size_t SweepJournal::read(const fs::path& path) {
  std::set<std::string> here;  // of several files, two may have asked the same; the first is taken
  const std::size_t end = Journal::read(path, [&](const json& line, int number, const std::string& place) {
    if (number == 1) return check_first(line, path);
    const JsonObject object(line, place);
    const std::string group = object.text("group");
    const char* what = line.contains("facts") ? "facts" : "answer";
    if (line.size() != 2 || !line.contains(what))
      throw Error({.file = place, .found = "other fields", .expected = "group and answer, or group and facts"});
    if (line.contains("facts")) return check_facts(group, whole_fields_of_json<EvalFacts>(line["facts"], place), path);
    auto answer = whole_fields_of_json<EvalAnswer>(line["answer"], place);
    std::string key = answer.key();
    if (!here.insert(group + "\t" + key).second)
      throw Error({.file = place, .found = "a second answer to the same question", .expected = "one"});
    answers_[group].try_emplace(std::move(key), std::move(answer));
  });
  if (end == 0 && !Journal::is_torn(path, first_line(settings_))) refuse_journal(path);
  return end;
}

void SweepJournal::check_first(const json& line, const fs::path& path) const {
  if (!line.is_object() || line.value(kSweepMark, json()) != 1 || !line.contains("settings") ||
      !line["settings"].is_object())
    refuse_journal(path);
  for (const auto& [name, value] : settings_.items()) {
    const json there = line["settings"].value(name, json()), now = json::parse(value.dump());
    if (there != now) refuse(path, name, there.dump(), now.dump());
  }
}

/// What a group loads, by its name: ", gate NAME, with NAMES, model FOLDER", or some of it.
std::string loaded_in(const std::string& group) {
  std::size_t first = group.size();
  for (const char* part : {kGateInName, kWithInName, kModelInName}) first = std::min(first, group.find(part));
  return group.substr(first);
}

bool has_length(const std::string& group) { return group.find(kLengthInName) != std::string::npos; }

/// Of groups of one sweep: the same machine and files, and of those that load the same, the same weights: a gate may have an
/// adapter of the model. Policies may have been added, and texts.
void SweepJournal::check_facts(const std::string& group, const EvalFacts& facts, const fs::path& path) {
  for (const auto& [name, there] : facts_) {
    const auto check = [&](const char* what, const std::string& a, const std::string& b) {
      if (a != b) refuse(path, what, a, b);
    };
    if (loaded_in(name) == loaded_in(group)) check("weights_hash", there.weights_hash, facts.weights_hash);
    check("device", there.device, facts.device);
    check("dtype", there.dtype, facts.dtype);
    if (!has_length(name) && !has_length(group))
      check("length", std::to_string(there.length), std::to_string(facts.length));
    check_inputs(there.inputs, facts.inputs, name == group ? nullptr : &shared_, path);
  }
  facts_[group] = facts;
}

const EvalAnswer* SweepJournal::find(const SweepGroup& group, const std::string& key) const {
  const auto answers = answers_.find(group.name());
  if (answers == answers_.end()) return nullptr;
  const auto answer = answers->second.find(key);
  return answer == answers->second.end() ? nullptr : &answer->second;
}

void SweepJournal::open() {
  journal_.open("wait until it ends, or give another -o");
  // Read again under the lock: who held it until now may have gone on.
  const std::size_t end = fs::file_size(journal_.path()) == 0 ? 0 : read(journal_.path());
  journal_.go_on_at(end);
  if (end == 0) journal_.write(first_line(settings_));
}

void SweepJournal::begin(const SweepGroup& group, const EvalFacts& facts) {
  const std::scoped_lock lock(mutex_);
  const auto there = facts_.find(group.name());
  const bool is_known = there != facts_.end() && there->second == facts;
  check_facts(group.name(), facts, journal_.path());
  if (!is_known && journal_.is_open()) journal_.write({{"group", group.name()}, {"facts", json_of_fields(facts)}});
}

void SweepJournal::append(const SweepGroup& group, const EvalAnswer& answer) {
  const std::scoped_lock lock(mutex_);
  // Whoever wrote the file before it was opened here may have asked the same.
  if (!answers_[group.name()].try_emplace(answer.key(), answer).second) return;
  if (journal_.is_open()) journal_.write({{"group", group.name()}, {"answer", json_of_fields(answer)}});
}

}  // namespace kvscope::app

#include "app/cli/sweep_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr const char* kMark = "kvscope_sweep";  // of the first line, with the version of the form

/// What an answer depends on besides its group, its key and what EvalFacts has.
ordered_json settings_of(const SweepPlan& plan) {
  const EvalRequest& request = plan.request;
  return {{"device", request.device},
          {"dtype", request.dtype},
          {"pieces", request.pieces},
          {"length", request.length},
          {"chat", request.chat},
          {"oracle", request.oracle},
          {"output_error", request.output_error}};
}

[[noreturn]] void refuse(const fs::path& path, const std::string& where, const std::string& found,
                         const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .file = path.string(),
               .where = where,
               .found = "answers of another sweep: " + found,
               .expected = expected,
               .hint = "remove it to begin anew, or give another -o"});
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

fs::path journal_path(const fs::path& target, int shard, int n_shards) {
  std::string name = target.string() + ".answers";
  if (n_shards > 1) name += "." + std::to_string(shard) + "-of-" + std::to_string(n_shards);
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
    : path_(std::move(path)), settings_(settings_of(plan)), shared_(shared_names(plan)) {
  for (const fs::path& other : others) read(other);
  std::error_code error;
  if (fs::exists(path_, error) && fs::file_size(path_, error) > 0) read(path_);
}

std::size_t SweepJournal::read(const fs::path& path) {
  const std::string text = read_file(path, kMaxBytes);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int number = 0;
  for (std::size_t at = 0, stop; at < end; at = stop + 1) {
    stop = text.find('\n', at);
    const std::string place = path.string() + ", line " + std::to_string(++number);
    const json line = parse_json(std::string_view(text).substr(at, stop - at), place);
    if (number == 1) {
      if (!line.is_object() || line.value(kMark, json()) != 1 || !line.contains("settings")) {
        throw Error({.file = path.string(), .found = "not a sweep's answers", .hint = "another -o, or remove it"});
      }
      for (const auto& [name, value] : settings_.items()) {
        const json there = line["settings"].value(name, json()), now = json::parse(value.dump());
        if (there != now) refuse(path, name, there.dump(), now.dump());
      }
      continue;
    }
    const std::string group = JsonObject(line, place).text("group");
    if (line.contains("facts")) check_facts(group, fields_of_json<EvalFacts>(line["facts"], place), path);
    if (line.contains("answer")) {
      EvalAnswer answer = fields_of_json<EvalAnswer>(line["answer"], place);
      std::string key = answer.key();
      answers_[group].try_emplace(std::move(key), std::move(answer));  // of two that were asked twice the first
    }
  }
  return end;
}

/// Of groups of one sweep: the same machine, model and files. Policies may have been added, and texts.
void SweepJournal::check_facts(const std::string& group, const EvalFacts& facts, const fs::path& path) {
  for (const auto& [name, there] : facts_) {
    const auto check = [&](const char* what, const std::string& a, const std::string& b) {
      if (a != b) refuse(path, what, a, b);
    };
    check("weights_hash", there.weights_hash, facts.weights_hash);
    check("device", there.device, facts.device);
    check("dtype", there.dtype, facts.dtype);
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
  std::error_code error;
  const bool is_new = !fs::exists(path_, error);
  file_ = FileHandle(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file_.get() < 0) throw_errno(errno, path_, "open");
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw Error({.code = ExitCode::resource, .file = path_.string(), .found = "another process is writing it"});
    }
    throw_errno(errno, path_, "lock");
  }
  // Read again under the lock: who held it until now may have gone on.
  const std::size_t end = is_new || fs::file_size(path_, error) == 0 ? 0 : read(path_);
  if (::ftruncate(file_.get(), static_cast<off_t>(end)) != 0 || ::lseek(file_.get(), 0, SEEK_END) < 0) {
    throw_errno(errno, path_, "write");
  }
  if (end == 0) write_line({{kMark, 1}, {"settings", settings_}});
}

void SweepJournal::begin(const SweepGroup& group, const EvalFacts& facts) {
  const std::scoped_lock lock(mutex_);
  const auto there = facts_.find(group.name());
  const bool is_known = there != facts_.end() && there->second == facts;
  check_facts(group.name(), facts, path_);
  if (!is_known) write_line({{"group", group.name()}, {"facts", json_of_fields(facts)}});
}

void SweepJournal::append(const SweepGroup& group, const EvalAnswer& answer) {
  const std::scoped_lock lock(mutex_);
  answers_[group.name()].try_emplace(answer.key(), answer);
  write_line({{"group", group.name()}, {"answer", json_of_fields(answer)}});
}

/// In one write(): what a kill leaves is whole lines and at most one beginning of a line.
void SweepJournal::write_line(const ordered_json& line) {
  const std::string text = line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, path_, "write");
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace kvscope::app

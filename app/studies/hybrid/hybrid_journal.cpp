#include "app/studies/hybrid/hybrid_journal.h"

#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr const char* kHybridMark = "kvscope_hybrid";  // of the first line, with the version of the form

nlohmann::ordered_json first_of(const nlohmann::ordered_json& what) { return {{kHybridMark, 1}, {"what", what}}; }

[[noreturn]] void refuse_other(const std::filesystem::path& path, const nlohmann::json& there,
                               const nlohmann::json& now) {
  Error::Parts parts{
      .code = ExitCode::usage,
      .file = path.string(),
      .found = "measurements of another study",
      .hint = "only a study with the same model, texts and sizes can continue this file; use another file"};
  for (const auto& [name, value] : now.items()) {
    if (there.is_object() && there.contains(name) && there[name] == value) continue;
    parts.where = name;
    parts.found = "measured with " + (there.is_object() && there.contains(name) ? there[name].dump() : "another form");
    parts.expected = value.dump();
    break;
  }
  throw Error(std::move(parts));
}

}  // namespace

HybridJournal::HybridJournal(std::filesystem::path path, const nlohmann::ordered_json& what)
    : journal_(std::move(path)) {
  // A device or a folder of that name was refused by writable_target() before.
  journal_.open("wait until it ends, or give another -o");
  const std::size_t end = std::filesystem::file_size(journal_.path()) == 0 ? 0 : read(what);
  journal_.go_on_at(end);
  if (end == 0) journal_.write(first_of(what));
}

HybridJournal::~HybridJournal() {
  if (entries_.empty() && journal_.is_open()) remove();
}

std::size_t HybridJournal::read(const nlohmann::ordered_json& facts) {
  const auto what = nlohmann::json::parse(facts.dump());  // whatever the order of its fields
  const auto refuse_file = [&] {
    throw Error(
        {.file = journal_.path().string(), .found = "not the journal of a hybrid study", .hint = "use a different -o"});
  };
  const std::size_t end = Journal::read(journal_.path(), [&](const auto& line, int number, const std::string& place) {
    if (number > 1) return read_entry(line, place);
    if (!line.is_object() || !line.contains(kHybridMark) || line[kHybridMark] != 1 || !line.contains("what"))
      refuse_file();
    if (line["what"] != what) refuse_other(journal_.path(), line["what"], what);
  });
  if (end == 0 && !Journal::is_torn(journal_.path(), first_of(facts))) refuse_file();
  return end;
}

void HybridJournal::read_entry(const nlohmann::json& line, const std::string& place) {
  const JsonObject object(line, place);
  if (line.size() != 2 || !line.contains("values") || !line["values"].is_array() || line["values"].empty())
    throw Error({.file = place, .where = "values", .found = "not a list of numbers", .expected = "key and values"});
  std::vector<double> values;
  for (const nlohmann::json& value : line["values"]) {
    if (!value.is_null() && !value.is_number())
      throw Error({.file = place, .where = "values", .found = value.dump(), .expected = "a number"});
    values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  if (!entries_.emplace(object.text("key"), std::move(values)).second)
    throw Error({.file = place, .where = "key", .found = "a second measurement of the same", .expected = "one"});
}

const std::vector<double>& HybridJournal::values(const std::string& key, std::size_t n,
                                                 const std::function<std::vector<double>()>& measure) {
  if (const auto found = entries_.find(key); found != entries_.end()) {
    if (found->second.size() == n) return found->second;
    throw Error({.file = journal_.path().string(),
                 .where = in_quotes(key),
                 .found = std::to_string(found->second.size()) + " values",
                 .expected = std::to_string(n),
                 .hint = "remove that line; its value is measured again"});
  }
  std::vector<double> values = measure();
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const double value : values)
    numbers.push_back(std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value));
  journal_.write({{"key", key}, {"values", std::move(numbers)}});
  return entries_[key] = std::move(values);
}

void HybridJournal::remove() {
  std::error_code ignored;
  std::filesystem::remove(journal_.path(), ignored);
}

}  // namespace kvscope::app

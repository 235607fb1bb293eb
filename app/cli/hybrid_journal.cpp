#include "app/cli/hybrid_journal.h"

#include <sys/file.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr const char* kMark = "kvscope_hybrid";  // of the first line, with the version of the form

nlohmann::ordered_json first_of(const nlohmann::ordered_json& what) { return {{kMark, 1}, {"what", what}}; }

[[noreturn]] void refuse_other(const std::filesystem::path& path, const nlohmann::json& there,
                               const nlohmann::json& now) {
  Error::Parts parts{.code = ExitCode::usage,
                     .file = path.string(),
                     .found = "measurements of something else",
                     .hint = "the same model, texts and sizes go on from there; others need another file"};
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

HybridJournal::HybridJournal(std::filesystem::path path, const nlohmann::ordered_json& what) : path_(std::move(path)) {
  std::error_code none;
  // A device or a folder of that name was refused by writable_target() before.
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) throw_errno(errno, path_, "open");
  if (::flock(::fileno(file_.get()), LOCK_EX | LOCK_NB) != 0)
    throw Error({.code = ExitCode::resource,
                 .file = path_.string(),
                 .found = "another study is writing it",
                 .hint = "wait for it, or give another -o"});
  if (std::filesystem::file_size(path_, none) > 0) read(what);
  if (std::filesystem::file_size(path_, none) == 0) write_line(first_of(what));
}

HybridJournal::~HybridJournal() {
  if (entries_.empty()) remove();
}

void HybridJournal::read(const nlohmann::ordered_json& facts) {
  const auto what = nlohmann::json::parse(facts.dump());  // whatever the order of its fields
  const std::string text = read_file(path_, kMostBytes);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int number = 0;
  for (std::size_t at = 0, stop = 0; at < end; at = stop + 1) {
    stop = text.find('\n', at);
    const std::string place = path_.string() + ", line " + std::to_string(++number);
    const nlohmann::json line = parse_json(std::string_view(text).substr(at, stop - at), place);
    if (number == 1) {
      if (!line.is_object() || !line.contains(kMark) || line[kMark] != 1 || !line.contains("what"))
        throw Error({.file = path_.string(), .found = "not the journal of a hybrid study", .hint = "another -o"});
      if (line["what"] != what) refuse_other(path_, line["what"], what);
      continue;
    }
    const JsonObject object(line, place);
    std::vector<double> values;
    if (!line.contains("values") || !line["values"].is_array())
      throw Error({.file = place, .where = "values", .found = "no list of numbers"});
    for (const nlohmann::json& value : line["values"]) {
      if (!value.is_null() && !value.is_number())
        throw Error({.file = place, .where = "values", .found = value.dump(), .expected = "a number"});
      values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
    }
    entries_[object.text("key")] = std::move(values);
  }
  if (number == 0 && !first_of(facts).dump().starts_with(text))
    throw Error({.file = path_.string(), .found = "not the journal of a hybrid study", .hint = "another -o"});
  if (end < text.size()) std::filesystem::resize_file(path_, end);  // a line that was cut short
}

const std::vector<double>& HybridJournal::values(const std::string& key,
                                                 const std::function<std::vector<double>()>& measure) {
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
  std::vector<double> values = measure();
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const double value : values)
    numbers.push_back(std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value));
  write_line({{"key", key}, {"values", std::move(numbers)}});
  return entries_[key] = std::move(values);
}

void HybridJournal::write_line(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
    throw_errno(errno, path_, "write");
}

void HybridJournal::remove() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace kvscope::app

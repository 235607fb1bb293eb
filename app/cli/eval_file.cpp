#include "app/cli/eval_file.h"

#include <cerrno>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr const char* kMark = "kvscope_eval";  // of the first line, with the version of the form

/// All that decides what the answers are; not what has been answered so far.
std::string identity(EvalRequest request) {
  request.done.clear();
  return json_of_fields(request).dump();
}

std::string first_line(const std::string& request, const EvalFacts& facts) {
  return nlohmann::ordered_json{
      {kMark, 1}, {"request", nlohmann::ordered_json::parse(request)}, {"facts", json_of_fields(facts)}}
      .dump();
}

/// Of two lists of files with their hashes, the first that differs.
[[noreturn]] void refuse_input(const std::filesystem::path& path, const nlohmann::json& there,
                               const nlohmann::json& now) {
  const auto text_of = [](const nlohmann::json& list, std::size_t i) {
    return list.is_array() && i < list.size() ? list[i].dump() : std::string("no such file");
  };
  std::size_t i = 0;
  while (i < now.size() && text_of(there, i) == now[i].dump()) ++i;
  throw Error({.code = ExitCode::usage,
               .file = path.string(),
               .where = "inputs",
               .found = "answers from " + text_of(there, i),
               .expected = text_of(now, i) + ", as the file is now",
               .hint = "restore the file to go on, or give another -o"});
}

/// The first field in which two objects differ, with both values.
[[noreturn]] void refuse(const std::filesystem::path& path, const nlohmann::json& there, const nlohmann::json& asked) {
  for (const auto& [name, value] : asked.items()) {
    const auto found = there.find(name);
    if (found != there.end() && *found == value) continue;
    if (name == "inputs") refuse_input(path, found == there.end() ? nlohmann::json() : *found, value);
    throw Error({.code = ExitCode::usage,
                 .file = path.string(),
                 .where = name,
                 .found = "answers to another request: " + (found == there.end() ? "none" : found->dump()),
                 .expected = value.dump(),
                 .hint = "the same request goes on; another one needs another file"});
  }
  throw Error({.code = ExitCode::usage, .file = path.string(), .found = "answers to another request"});
}

}  // namespace

EvalFile::EvalFile(std::filesystem::path path, const EvalRequest& request)
    : path_(std::move(path)), request_(identity(request)) {
  std::error_code error;
  if (!path_.empty() && std::filesystem::exists(path_, error) && std::filesystem::file_size(path_, error) > 0) read();
}

void EvalFile::read() {
  const std::string text = read_file(path_, kMaxBytes);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int number = 0;
  for (std::size_t at = 0, stop; at < end; at = stop + 1) {
    stop = text.find('\n', at);
    const std::string place = path_.string() + ", line " + std::to_string(++number);
    const nlohmann::json line = parse_json(std::string_view(text).substr(at, stop - at), place);
    if (number > 1) {
      answers_.push_back(fields_of_json<EvalAnswer>(line, place));
      continue;
    }
    if (!line.is_object() || !line.contains(kMark) || line[kMark] != 1 || !line.contains("request") ||
        !line.contains("facts"))
      throw Error({.file = path_.string(), .found = "not a file of this version's evaluations", .hint = "another -o"});
    const auto asked = nlohmann::json::parse(request_);
    if (line["request"] != asked) refuse(path_, line["request"], asked);
    there_ = fields_of_json<EvalFacts>(line["facts"], place);
    facts_ = *there_;
  }
  if (number == 0)
    throw Error({.file = path_.string(), .found = "not a file of this version's evaluations", .hint = "another -o"});
  if (end < text.size()) std::filesystem::resize_file(path_, end);  // a line that was cut short
}

std::vector<std::string> EvalFile::done() const {
  std::vector<std::string> keys;
  for (const EvalAnswer& answer : answers_) keys.push_back(answer.key());
  return keys;
}

void EvalFile::begin(const EvalFacts& facts) {
  if (there_ && *there_ != facts) {
    refuse(path_, nlohmann::json(json_of_fields(*there_)), nlohmann::json(json_of_fields(facts)));
  }
  facts_ = facts;
  if (path_.empty()) return;
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) throw_errno(errno, path_, "open");
  if (!there_) write_line(first_line(request_, facts));
}

void EvalFile::append(const EvalAnswer& answer) {
  answers_.push_back(answer);
  if (file_ != nullptr) {
    write_line(json_of_fields(answer).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
}

void EvalFile::write_line(const std::string& line) {
  if (std::fwrite((line + "\n").data(), 1, line.size() + 1, file_.get()) != line.size() + 1 ||
      std::fflush(file_.get()) != 0)
    throw_errno(errno, path_, "write");
}

}  // namespace kvscope::app

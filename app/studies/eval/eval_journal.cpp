#include "app/studies/eval/eval_journal.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

constexpr const char* kMark = "kvscope_eval";  // of the first line, with the version of the form

/// All that decides what the answers are; not what has been answered so far.
std::string identity(EvalRequest request) {
  request.done.clear();
  return json_of_fields(request).dump();
}

nlohmann::ordered_json first_line(const std::string& request, const EvalFacts& facts) {
  return {{kMark, 1}, {"request", nlohmann::ordered_json::parse(request)}, {"facts", json_of_fields(facts)}};
}

[[noreturn]] void refuse_file(const std::filesystem::path& path) {
  throw Error({.file = path.string(),
               .found = "not an answers file of this version of kvscope eval",
               .hint = "use a different -o"});
}

/// A first line that a kill has cut: as far as it goes it says the same. The facts after the request are not known yet.
bool is_torn_first(const std::filesystem::path& path, const std::string& request) {
  const std::string there = read_file(path, std::size_t{1} << 24);
  std::string mine = first_line(request, {}).dump();
  mine.resize(mine.find(",\"facts\":"));
  return mine.starts_with(there) || there.starts_with(mine);
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
               .hint = "restore the file to continue, or give another -o"});
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
                 .hint = "only the same request can continue this file; use another file"});
  }
  throw Error({.code = ExitCode::usage, .file = path.string(), .found = "answers to another request"});
}

}  // namespace

EvalJournal::EvalJournal(std::filesystem::path path, const EvalRequest& request)
    : journal_(std::move(path)), asked_(request), request_(identity(request)) {
  if (journal_.path().empty()) return;
  journal_.open("wait until it ends, or give another -o");
  if (std::filesystem::file_size(journal_.path()) == 0) return;
  const std::size_t end = Journal::read(journal_.path(), [&](const auto& line, int number, const std::string& place) {
    number == 1 ? read_first(line, place) : read_answer(line, place);
  });
  if (end == 0 && !is_torn_first(journal_.path(), request_)) refuse_file(journal_.path());
  journal_.go_on_at(end);
}

void EvalJournal::read_first(const nlohmann::json& line, const std::string& place) {
  if (!line.is_object() || line.size() != 3 || !line.contains(kMark) || line[kMark] != 1 || !line.contains("request") ||
      !line.contains("facts"))
    refuse_file(journal_.path());
  const auto asked = nlohmann::json::parse(request_);
  if (line["request"] != asked) refuse(journal_.path(), line["request"], asked);
  there_ = whole_fields_of_json<EvalFacts>(line["facts"], place);
  facts_ = *there_;
}

/// What is counted must be an answer to this request: a file that was put together by hand, or by two, is refused.
void EvalJournal::read_answer(const nlohmann::json& line, const std::string& place) {
  auto answer = whole_fields_of_json<EvalAnswer>(line, place);
  const auto check = [&](bool good, const char* where, const std::string& found, const std::string& expected) {
    if (!good) throw Error({.file = place, .where = where, .found = found, .expected = expected});
  };
  const auto is_among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  check(is_among(facts_.items, answer.item), "item", in_quotes(answer.item), "one of the request");
  check(is_among(facts_.policies, answer.policy), "policy", in_quotes(answer.policy), "one of the request");
  check(answer.is_dense == (answer.policy == facts_.policies.front()), "is_dense", answer.is_dense ? "true" : "false",
        "the first policy as the dense one");
  const int n = answer.is_text ? asked_.pieces : asked_.questions;
  check(answer.index < n, "index", std::to_string(answer.index), "a number below " + std::to_string(n));
  check(!answer.is_text || !std::isnan(answer.nll), "nll", "null", "a number, because this is a text");
  check(keys_.insert(answer.key()).second, "index", "a second answer to the same question", "one");
  answers_.push_back(std::move(answer));
}

std::vector<std::string> EvalJournal::done() const {
  std::vector<std::string> keys;
  for (const EvalAnswer& answer : answers_) keys.push_back(answer.key());
  return keys;
}

void EvalJournal::begin(const EvalFacts& facts) {
  if (there_ && *there_ != facts) {
    refuse(journal_.path(), nlohmann::json(json_of_fields(*there_)), nlohmann::json(json_of_fields(facts)));
  }
  facts_ = facts;
  if (journal_.is_open() && !there_) journal_.write(first_line(request_, facts));
}

void EvalJournal::append(const EvalAnswer& answer) {
  answers_.push_back(answer);
  if (journal_.is_open()) journal_.write(json_of_fields(answer));
}

}  // namespace kvscope::app

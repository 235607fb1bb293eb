#include "engine/core/record/command_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/support/shell_quote.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr std::size_t kMostIds = 100'000;  // bytes; Linux takes 131,072 in one argument

std::string messages_text(const std::vector<ChatMessage>& messages) {
  auto list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string numbers(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

/// Of numbers().
bool is_short(const std::vector<std::int32_t>& ids) {
  return ids.size() <= kMostIds / 11 || numbers(ids).size() <= kMostIds;
}

/// The prompt is named by its tokens.
bool names_ids(const Asked& asked) { return !asked.request.prompt_ids.empty() && !asked.by_text; }

bool fits(const Asked& asked) {
  return (!names_ids(asked) || is_short(asked.request.prompt_ids)) &&
         (!asked.request.answer_ids || is_short(*asked.request.answer_ids));
}

std::string change_option(const PolicyChange& change) {
  return " --change " + shell_quote(std::to_string(change.q) + ":" + change.policy.written());
}

}  // namespace

std::string option_line(const RunRequest& request) {
  std::string line = "--policy " + shell_quote(request.policy.written());
  line += " --max-tokens " + std::to_string(request.max_tokens);
  line += " --seed " + std::to_string(request.sampling.seed);
  const SamplingSpec greedy;
  if (request.sampling.temperature != greedy.temperature)
    line += " --temperature " + number_text(request.sampling.temperature, 10);
  if (request.sampling.top_k != greedy.top_k) line += " --top-k " + std::to_string(request.sampling.top_k);
  if (request.sampling.top_p != greedy.top_p) line += " --top-p " + number_text(request.sampling.top_p, 10);
  if (request.sampling.min_p != greedy.min_p) line += " --min-p " + number_text(request.sampling.min_p, 10);
  if (request.sampling.repetition_penalty != greedy.repetition_penalty)
    line += " --repetition-penalty " + number_text(request.sampling.repetition_penalty, 10);
  line += request.raw ? " --raw" : " --chat";
  if (request.chat.thinking) line += *request.chat.thinking ? " --thinking on" : " --thinking off";
  if (!request.chat.date.empty()) line += " --date " + shell_quote(request.chat.date);
  for (const std::string& stop : request.stop) line += " --stop " + shell_quote(stop);
  for (const PolicyChange& change : request.changes) line += change_option(change);
  if (!request.budgets.empty()) line += " --budgets " + numbers(request.budgets);
  if (request.chunk > 0) line += " --chunk " + std::to_string(request.chunk);
  if (!request.oracle) line += " --no-oracle";
  if (!(request.oracle_spec == OracleSpec())) line += " --oracle " + request.oracle_spec.to_string();
  if (request.output_error) line += " --output-error";
  if (!request.stop_at_eos) line += " --ignore-eos";
  return line;
}

namespace {

/// `engine` as it is to be read, empty for KVScope's own.
std::string line_of(const std::string& model, const Asked& asked, const std::string& engine) {
  if (!fits(asked)) return "";
  RunRequest request = asked.request;
  const bool by_ids = names_ids(asked);
  if (by_ids) request.raw = true, request.chat = {};  // no template is written: the command has the tokens
  std::string line = "kvscope run " + shell_quote(model);
  if (!engine.empty()) line += " --engine " + engine;
  line += " " + option_line(request);
  if (by_ids) {
    line += " --prompt-ids " + numbers(request.prompt_ids);
  } else if (!request.messages.empty()) {
    line += " --messages " + shell_quote(messages_text(request.messages));
  } else {
    line += " --prompt " + shell_quote(request.prompt);
  }
  if (request.answer_ids && !request.answer_ids->empty()) line += " --answer-ids " + numbers(*request.answer_ids);
  if (by_ids && !request.prompt.empty()) line += " --title " + shell_quote(request.prompt);
  for (const GateRef& gate : asked.gates)
    if (!gate.given.empty()) line += " --gate " + shell_quote(gate.given);
  return line;
}

std::string line_of(const RunRecord& run, const std::string& engine) {
  if (run.asked == nullptr) return "";
  std::string line = line_of(run.model.path, *run.asked, engine);
  if (line.empty()) return line;
  for (const PolicyChange& change : run.changes)
    if (std::ranges::count(run.asked->request.changes, change) == 0) line += change_option(change);
  return line;
}

}  // namespace

std::string command_line(const std::string& model, const Asked& asked) {
  return line_of(model, asked, asked.engine.empty() ? "" : shell_quote(asked.engine));
}

std::string command_line_in_trace(const RunRecord& run) {
  return line_of(run, run.recorder.empty() ? "" : "COMMAND");  // which one was there, no trace says
}

std::string command_line(const RunRecord& run) {
  if (run.asked == nullptr || run.asked->engine.empty()) return command_line_in_trace(run);
  return line_of(run, shell_quote(run.asked->engine));
}

bool has_command(const RunRecord& run) { return run.asked != nullptr && fits(*run.asked); }

}  // namespace kvscope

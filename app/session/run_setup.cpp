#include "app/session/run_setup.h"

#include <nlohmann/json.hpp>

#include "app/process/paths.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

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

}  // namespace

std::string change_option(const PolicyChange& change) {
  return " --change " + shell_quote(std::to_string(change.q) + ":" + change.policy.written());
}

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
  if (request.chunk > 0) line += " --chunk " + std::to_string(request.chunk);
  if (!request.oracle) line += " --no-oracle";
  if (!(request.oracle_spec == OracleSpec())) line += " --oracle " + request.oracle_spec.to_string();
  if (request.output_error) line += " --output-error";
  if (!request.stop_at_eos) line += " --ignore-eos";
  return line;
}

std::string run_command_line(const std::string& model, const RunRequest& request) {
  const std::string line = "kvscope run " + shell_quote(model) + " " + option_line(request);
  if (!request.messages.empty()) return line + " --messages " + shell_quote(messages_text(request.messages));
  return line + " --prompt " + shell_quote(request.prompt);
}

std::string tokens_command_line(const std::string& model, RunRequest request) {
  constexpr std::size_t kMost = 100'000;  // bytes; Linux takes 131,072 in one argument
  if (request.prompt_ids.empty()) return "";
  request.raw = true, request.chat = {};  // no template is written: the tokens are said
  const std::string prompt = numbers(request.prompt_ids);
  const std::string answer = request.answer_ids ? numbers(*request.answer_ids) : "";
  if (prompt.size() > kMost || answer.size() > kMost) return "";
  std::string line = "kvscope run " + shell_quote(model) + " " + option_line(request) + " --prompt-ids " + prompt;
  if (!answer.empty()) line += " --answer-ids " + answer;
  return request.prompt.empty() ? line : line + " --title " + shell_quote(request.prompt);
}

RunRecord start_record(const ModelInfo& model, const RunRequest& request) {
  RunRecord run;
  run.model = model;
  run.policy = request.policy;
  run.sampling = request.sampling;
  run.prompt_text = request.prompt;
  run.chunk = request.chunk;
  run.command_line = run_command_line(model.path, request);
  run.started_utc = utc_now();
  return run;
}

}  // namespace kvscope::app

#include "engine/core/trace/old_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "engine/core/record/pipe_gate.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::trace {
namespace {

/// Options with their values; an option without one has an empty text.
using Options = std::multimap<std::string, std::string, std::less<>>;

Options options_of(std::string_view line) {
  constexpr std::array<std::string_view, 6> kFlags = {"--raw",          "--chat",       "--no-oracle",
                                                      "--output-error", "--ignore-eos", "--overwrite"};
  Options options;
  const std::vector<std::string> words = shell_words(line);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const bool has_value = std::ranges::count(kFlags, words[i]) == 0 && i + 1 < words.size();
    options.emplace(words[i], has_value ? words[i + 1] : "");
    i += has_value ? 1 : 0;
  }
  return options;
}

std::string value_of(const Options& options, std::string_view name) {
  const auto found = options.find(name);
  return found == options.end() ? "" : found->second;
}

std::vector<std::string> values_of(const Options& options, std::string_view name) {
  std::vector<std::string> values;
  const auto [first, last] = options.equal_range(name);
  for (auto it = first; it != last; ++it) values.push_back(it->second);
  return values;
}

/// Of a line that shell_quote() wrote of JSON that this program wrote; none of another.
std::vector<ChatMessage> messages_of(const std::string& text) {
  std::vector<ChatMessage> messages;
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return {};
  for (const auto& one : list) {
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string() || !one.contains("content") ||
        !one["content"].is_string())
      return {};
    messages.push_back({one["role"].get<std::string>(), one["content"].get<std::string>()});
  }
  return messages;
}

/// As it was written, where this version still reads that.
PolicySpec policy_of(const Options& options, const RunRecord& run) {
  try {
    return PolicySpec::parse(value_of(options, "--policy"));
  } catch (const Error&) {
    return run.policy;
  }
}

int chunk_in(const Options& options) {
  const std::string text = value_of(options, "--chunk");
  int chunk = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), chunk);
  return read.ec == std::errc() && chunk > 0 && chunk < kMaxPositions ? chunk : 0;
}

}  // namespace

int chunk_of_command(std::string_view line) { return chunk_in(options_of(line)); }

std::shared_ptr<const Asked> asked_of_command(const RunRecord& run, std::string_view line) {
  if (line.empty()) return nullptr;
  const Options options = options_of(line);
  const auto has = [&](std::string_view name) { return options.contains(name); };
  const int prompt_len = std::clamp(run.prompt_len, 0, run.n_tokens());
  Asked asked;
  RunRequest& r = asked.request;
  r.prompt = run.prompt_text;
  r.policy = policy_of(options, run);
  r.sampling = run.sampling;
  r.max_tokens = std::max(0, run.n_positions - run.prompt_len);
  r.changes = run.changes;
  r.chunk = run.chunk;
  r.oracle = !has("--no-oracle");
  r.oracle_spec = run.oracle;
  r.output_error = has("--output-error");
  r.stop_at_eos = !has("--ignore-eos");
  r.raw = !has("--chat");
  r.stop = values_of(options, "--stop");
  if (has("--thinking")) r.chat.thinking = value_of(options, "--thinking") == "on";
  r.chat.date = value_of(options, "--date");
  r.messages = messages_of(value_of(options, "--messages"));
  if (has("--prompt-ids")) {
    r.prompt_ids.assign(run.ids.begin(), run.ids.begin() + prompt_len);
    asked.by_text = false;
    asked.origin.kind = RunOrigin::Kind::fork;
  }
  if (has("--answer-ids")) {
    r.answer_ids.emplace(run.ids.begin() + prompt_len, run.ids.end());
    asked.origin.kind = RunOrigin::Kind::replay;
  }
  for (const std::string& gate : values_of(options, "--gate")) asked.gates.push_back({.given = gate_in_files(gate)});
  asked.key = key_of(asked, run.model.weights_hash, run.started_utc);
  return std::make_shared<const Asked>(std::move(asked));
}

}  // namespace kvscope::trace

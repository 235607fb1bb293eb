#include "engine/core/files/tokenizer/chat.h"

#include <algorithm>

#include "engine/core/files/tokenizer/channels.h"
#include "engine/core/files/tokenizer/template_run.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/read_budget.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxConfigBytes = 16u << 20, kMaxTemplateBytes = 1u << 20;
/// A reason may quote a tag of any length.
std::string cut(std::string_view reason) { return escape_for_terminal(reason, 160); }

constexpr const char *kNotKnown = "an unsupported template: ", *kExpected = "a template that KVScope can run";
constexpr const char* kHint = "raw text needs no template: use --raw, or leave out --chat";

struct FoundTemplate {
  std::string text;
  ChatTokens tokens;
  std::string file, where;
};

[[noreturn]] void fail(const std::string& file, std::string where, std::string found, std::string expected) {
  refuse(file, std::move(where), std::move(found), std::move(expected), kHint);
}

/// "chat_template" is the text, or several by name, of which "default" is meant: a list of {name, template}, where the
/// last of that name counts, or an object.
std::optional<std::string> template_of(const json& config, const std::string& file) {
  const auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return {};
  if (it->is_string()) return it->get<std::string>();
  if (!it->is_array() && !it->is_object()) fail(file, "chat_template", it->type_name(), "text or a list of templates");
  if (it->is_object() && it->contains("default")) return JsonObject(*it, file, "chat_template").text("default");
  std::optional<std::string> found;
  for (std::size_t i = 0; it->is_array() && i < it->size(); ++i) {
    const JsonObject item((*it)[i], file, "chat_template[" + std::to_string(i) + "]");
    if (item.text("name") == "default") found = item.text("template");
  }
  if (!found) fail(file, "chat_template", "no template named default among " + std::to_string(it->size()), "one");
  return found;
}

/// Adds the tokens that have a name: each a string, or an added token's object. One without a text is not defined, as
/// in transformers: {{ bos_token }} writes nothing, bos_token + 'x' is an error.
void add_tokens(const json& config, const std::string& file, ChatTokens& tokens) {
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto it = config.find(name);
    if (it == config.end() || it->is_null()) continue;
    tokens[name] = it->is_object() ? JsonObject(*it, file, name).text("content") : JsonObject(config, file).text(name);
  }
}

/// special_tokens_map.json goes before a tokenizer_config.json that lists no tokens, as in transformers.
ChatTokens tokens_of_folder(const std::filesystem::path& folder, const json& config) {
  ChatTokens tokens;
  add_tokens(config, (folder / "tokenizer_config.json").string(), tokens);
  const std::filesystem::path path = folder / "special_tokens_map.json";
  std::error_code error;
  if (config.contains("added_tokens_decoder") || !std::filesystem::exists(path, error)) return tokens;
  const json map = read_json(path, {.max_bytes = kMaxConfigBytes});
  if (!map.is_object()) fail(path.string(), "", map.type_name(), "an object");
  add_tokens(map, path.string(), tokens);
  return tokens;
}

/// The model's template; a file of its own goes before the one in tokenizer_config.json.
std::optional<FoundTemplate> find_template(const std::filesystem::path& folder) {
  const std::filesystem::path own = folder / "chat_template.jinja", config_path = folder / "tokenizer_config.json";
  std::error_code error;
  const bool has_own = std::filesystem::exists(own, error), has_config = std::filesystem::exists(config_path, error);
  json config = json::object();
  if (has_config) config = read_json(config_path, {.max_bytes = kMaxConfigBytes});
  const std::string config_file = config_path.string();
  if (!config.is_object()) fail(config_file, "", config.type_name(), "an object");
  if (has_own)
    return FoundTemplate{read_file(own, kMaxTemplateBytes), tokens_of_folder(folder, config), own.string(), ""};
  auto text = template_of(config, config_file);
  if (!text) return {};
  return FoundTemplate{std::move(*text), tokens_of_folder(folder, config), config_file, "chat_template"};
}

[[noreturn]] void usage(std::string file, std::string found, std::string expected) {
  throw Error(
      {.code = ExitCode::usage, .file = std::move(file), .found = std::move(found), .expected = std::move(expected)});
}

/// A message as templates get it. An earlier answer in channels is its parts where the template writes channels: it rejects
/// them in a content.
nlohmann::ordered_json template_message(const ChatMessage& message, bool has_channels) {
  const auto parts =
      has_channels && message.role == "assistant" ? read_channels(message.content) : std::optional<ChannelAnswer>();
  if (!parts) return {{"role", message.role}, {"content", message.content}};
  nlohmann::ordered_json out = {{"role", message.role}, {"content", parts->content}};
  if (!parts->thinking.empty()) out["thinking"] = parts->thinking;
  return out;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::find(const std::filesystem::path& folder) {
  try {
    const auto found = find_template(folder);
    if (!found) return {};
    return from_text(found->text, found->tokens, found->file, found->where);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.hint.empty()) parts.hint = kHint;
    throw Error(std::move(parts));
  }
}

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  auto found = find(folder);
  if (!found) fail(folder.string(), "", "no chat template", "chat_template in tokenizer_config.json");
  return std::move(*found);
}

ChatTemplate ChatTemplate::from_text(std::string_view jinja, ChatTokens tokens, const std::string& file,
                                     const std::string& where) {
  ReadBudget({.max_bytes = kMaxTemplateBytes}).add_bytes(jinja.size(), [&](std::string found, std::string) {
    fail(file, where, found, "a chat template");
  });
  ChatTemplate chat;
  chat.tokens_ = std::move(tokens);
  chat.file_ = file, chat.where_ = where;
  chat.has_channels_ = jinja.find(kChannelMark) != jinja.npos;
  try {
    chat.program_ = std::make_shared<const TemplateProgram>(read_template(jinja));
    chat.try_out();
  } catch (const TemplateProblem& problem) {
    fail(file, where, kNotKnown + cut(problem.reason), kExpected);
  }
  return chat;
}

bool ChatTemplate::has_thinking_choice() const {
  return program_->given.contains("enable_thinking") || program_->given.contains("thinking");
}
bool ChatTemplate::has_date() const {
  return program_->given.contains("date_string") || program_->given.contains("strftime_now");
}

/// On a first message: a template that fails there is of no use, and its date is known.
void ChatTemplate::try_out() {
  const ChatMessage message{"user", "x"};
  const TemplateInput input = input_of({&message, 1}, {});
  date_ = input.date;
  try {
    const std::string date = run_template(*program_, input).date;
    if (!date.empty()) date_ = date;
  } catch (const TemplateRaised&) {  // it may want another conversation
  }
}

void ChatTemplate::check(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  if (messages.empty()) usage("chat", "no message", "at least one");
  for (const ChatMessage& message : messages) {
    if (message.role == "system" || message.role == "user" || message.role == "assistant") continue;
    usage("chat", "role " + in_quotes(message.role), "system, user or assistant");
  }
  if (options.thinking && !has_thinking_choice()) {
    usage("thinking", *options.thinking ? "on" : "off", "nothing: the model's chat template has no such choice");
  }
  if (!options.date.empty() && !has_date()) {
    usage("date", in_quotes(options.date), "nothing: the model's chat template has no date");
  }
}

TemplateInput ChatTemplate::input_of(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  TemplateInput input;
  for (const auto& [name, text] : tokens_) input.values[name] = text;
  input.values["messages"] = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    input.values["messages"].push_back(template_message(message, has_channels_));
  }
  input.values["add_generation_prompt"] = options.add_generation_prompt;
  for (const char* name : {"tools", "documents"}) input.values[name] = nullptr;
  if (!options.date.empty()) input.values["date_string"] = input.date = options.date;
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (options.thinking) input.values[name] = *options.thinking;
  }
  return input;
}

TemplateText ChatTemplate::write(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  check(messages, options);
  try {
    return run_template(*program_, input_of(messages, options)).text;
  } catch (const TemplateProblem& problem) {
    fail(file_, where_, kNotKnown + cut(problem.reason), kExpected);
  } catch (const TemplateRaised& raised) {
    fail(file_, where_, "the template rejects this conversation: " + in_quotes(raised.message),
         "a conversation that the model supports");
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  return write(messages, options).text;
}

std::vector<std::int32_t> ChatTemplate::encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                               const ChatOptions& options) const {
  const TemplateText all = write(messages, options);
  std::vector<bool> is_written;
  is_written.reserve(all.origins.size());
  for (const char origin : all.origins) is_written.push_back(origin == TemplateText::written);
  return tokenizer.encode_chat(all.text, is_written);
}

}  // namespace kvscope

#include "engine/core/files/tokenizer/chat.h"

#include "engine/core/files/tokenizer/chat_format.h"
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

constexpr const char* kNotKnown = "an unsupported template: ";
constexpr const char* kHint = "raw text needs no template: use --raw, or leave out --chat";

struct FoundTemplate {
  std::string text;
  std::optional<std::string> bos;
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

/// Text of the first token: a string, or an added token's object. Without one bos_token is not defined, as in
/// transformers: {{ bos_token }} writes nothing, bos_token + 'x' is an error.
std::optional<std::string> bos_of(const json& config, const std::string& file) {
  const auto it = config.find("bos_token");
  if (it == config.end() || it->is_null()) return {};
  return it->is_object() ? JsonObject(*it, file, "bos_token").text("content")
                         : JsonObject(config, file).text("bos_token");
}

/// special_tokens_map.json goes before a tokenizer_config.json that lists no tokens, as in transformers.
std::optional<std::string> bos_of_folder(const std::filesystem::path& folder, const json& config) {
  const std::filesystem::path path = folder / "special_tokens_map.json";
  std::error_code error;
  if (!config.contains("added_tokens_decoder") && std::filesystem::exists(path, error)) {
    const json map = read_json(path, {.max_bytes = kMaxConfigBytes});
    if (!map.is_object()) fail(path.string(), "", map.type_name(), "an object");
    if (map.contains("bos_token")) return bos_of(map, path.string());
  }
  return bos_of(config, (folder / "tokenizer_config.json").string());
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
  if (has_own) return FoundTemplate{read_file(own, kMaxTemplateBytes), bos_of_folder(folder, config), own.string(), ""};
  auto text = template_of(config, config_file);
  if (!text) return {};
  return FoundTemplate{std::move(*text), bos_of_folder(folder, config), config_file, "chat_template"};
}

[[noreturn]] void usage(std::string file, std::string found, std::string expected) {
  throw Error(
      {.code = ExitCode::usage, .file = std::move(file), .found = std::move(found), .expected = std::move(expected)});
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<ChatFormat> format, std::string file, std::string where)
    : format_(std::move(format)), file_(std::move(file)), where_(std::move(where)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::optional<ChatTemplate> ChatTemplate::find(const std::filesystem::path& folder) {
  try {
    const auto found = find_template(folder);
    if (!found) return {};
    return from_text(found->text, found->bos, found->file, found->where);
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

ChatTemplate ChatTemplate::from_text(std::string_view jinja, std::optional<std::string> bos, const std::string& file,
                                     const std::string& where) {
  ReadBudget({.max_bytes = kMaxTemplateBytes}).add_bytes(jinja.size(), [&](std::string found, std::string) {
    fail(file, where, found, "a chat template");
  });
  auto result = recognise_chat_format(jinja, std::move(bos));
  if (const auto* reason = std::get_if<std::string>(&result)) {
    fail(file, where, kNotKnown + cut(*reason),
         "one like that of Qwen2, Qwen2.5, Qwen3, Llama 3, Llama 3.1 to 3.3 or DeepSeek-R1");
  }
  return ChatTemplate(std::make_unique<ChatFormat>(std::get<ChatFormat>(std::move(result))), file, where);
}

const std::string& ChatTemplate::name() const { return format_->name; }
bool ChatTemplate::has_thinking_choice() const { return format_->thinking == ChatFormat::Thinking::choice; }
bool ChatTemplate::has_date() const { return format_->has_date; }
const std::string& ChatTemplate::date() const { return format_->date; }

void ChatTemplate::check(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  if (messages.empty()) usage("chat", "no message", "at least one");
  for (const ChatMessage& message : messages) {
    if (message.role == "system" || message.role == "user" || message.role == "assistant") continue;
    usage("chat", "role " + in_quotes(message.role), "system, user or assistant");
  }
  const bool possible = !options.thinking || format_->thinking == ChatFormat::Thinking::choice ||
                        *options.thinking == (format_->thinking == ChatFormat::Thinking::always);
  if (!possible) {
    usage("thinking", *options.thinking ? "on" : "off",
          "nothing: " + format_->name + "'s chat template has no such choice");
  }
  if (!options.date.empty() && !format_->has_date) {
    usage("date", in_quotes(options.date), "nothing: " + format_->name + "'s chat template has no date");
  }
}

std::vector<ChatPiece> ChatTemplate::write(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  check(messages, options);
  try {
    return write_chat(*format_, messages, options);
  } catch (const TemplateProblem& problem) {
    fail(file_, where_, kNotKnown + cut(problem.reason), "a template that KVScope supports");
  } catch (const TemplateRaised& raised) {
    fail(file_, where_, "the template rejects this conversation: " + in_quotes(raised.message),
         "a conversation that the model supports");
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  std::string text;
  for (const ChatPiece& piece : write(messages, options)) text += piece.text;
  return text;
}

std::vector<std::int32_t> ChatTemplate::encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                               const ChatOptions& options) const {
  std::vector<std::int32_t> ids;
  for (const ChatPiece& piece : write(messages, options)) {
    for (const std::string& frame : piece.frame) {
      if (tokenizer.encode(frame) == tokenizer.encode_typed(frame)) continue;
      fail(file_, where_,
           "the template writes " + in_quotes(frame) + ", which contains special tokens of the tokenizer",
           "only markup of the supported model families");
    }
    if (!piece.markup) {
      const std::vector<std::int32_t> more = tokenizer.encode_typed(piece.text, ids.empty());
      ids.insert(ids.end(), more.begin(), more.end());
    } else if (const auto id = tokenizer.added_token(piece.text)) {
      ids.push_back(*id);
    } else {
      fail(file_, "", "the template writes " + in_quotes(piece.text) + ", which the tokenizer lacks",
           "an added token of tokenizer.json");
    }
  }
  return ids;
}

}  // namespace kvscope

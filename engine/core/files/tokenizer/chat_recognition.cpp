// Whose conversation a chat template writes. A template is a program, and running a stranger's is not needed: those of
// the families are few, and each is known by the tags that decide what is written. The tags are compared in a canonical
// spelling; whatever else is in the template may not print markup of its own and may use no name that theirs do not.

#include <algorithm>

#include "engine/core/files/tokenizer/chat_format.h"
#include "engine/core/files/tokenizer/template_code.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

using Result = std::variant<ChatFormat, std::string>;

constexpr std::string_view kNames[] = {
    // Jinja's own
    "if", "elif", "else", "endif", "for", "endfor", "in", "set", "not", "and", "or", "is", "defined", "none", "true",
    "false", "string", "mapping", "iterable", "loop", "first", "last", "index0", "namespace", "trim", "length",
    "tojson", "indent", "items", "join", "reject", "safe", "split", "strip", "lstrip", "rstrip", "startswith",
    "endswith", "raise_exception", "strftime_now", "True", "False", "None",
    // what the families' templates are given, and their variables
    "messages", "message", "role", "content", "reasoning_content", "tools", "tool", "tool_calls", "tool_call",
    "function", "name", "arguments", "add_generation_prompt", "enable_thinking", "bos_token", "custom_tools",
    "builtin_tools", "tools_in_user_message", "date_string", "ns", "multi_step_tool", "last_query_index", "index",
    "system_message", "first_user_message", "loop_messages", "t", "arg_name", "arg_val", "system_prompt", "is_first",
    "is_first_sp", "is_tool", "is_output_first", "type"};

bool is_number(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Whether every if and for is closed, and nothing else is opened.
bool is_balanced(const TemplateCode& t) {
  std::vector<std::string_view> open;
  for (const std::string& block : t.blocks) {
    if (block == "if" || block == "for") {
      open.push_back(block);
    } else if (block == "elif" || block == "else") {
      if (open.empty()) return false;
    } else if (block == "endif" || block == "endfor") {
      if (open.empty() || open.back() != block.substr(3)) return false;
      open.pop_back();
    } else if (block != "set") {
      return false;
    }
  }
  return open.empty();
}

/// A text that something is compared with and that is no role, if there is one.
std::optional<std::string> foreign_comparison(const TemplateCode& t) {
  for (const std::string_view sign : {"=='", "!='"}) {
    for (std::size_t at = t.code.find(sign); at != std::string::npos; at = t.code.find(sign, at + 1)) {
      const std::size_t begin = at + sign.size();
      const std::string text = t.code.substr(begin, t.code.find('\'', begin) - begin);
      if (!is_one_of(text, {"system", "user", "assistant", "tool", "ipython"})) return text;
    }
  }
  return {};
}

/// The part of a literal between a given beginning and end, if it is of that form.
std::optional<std::string> between(std::string_view literal, std::string_view begin, std::string_view end) {
  if (literal.size() < begin.size() + end.size() || !literal.starts_with(begin) || !literal.ends_with(end)) return {};
  return std::string(literal.substr(begin.size(), literal.size() - begin.size() - end.size()));
}

bool has(const TemplateCode& t, std::string_view part) { return t.code.find(part) != std::string::npos; }

/// Code of the last `if add_generation_prompt`, to the template's end.
std::string_view generation_code(const TemplateCode& t) {
  const std::size_t at = t.code.rfind("{%if add_generation_prompt%}");
  return at == std::string::npos ? std::string_view() : std::string_view(t.code).substr(at);
}

/// The default system message is in a literal of its own, and is what makes Qwen2.5 of Qwen2.
std::optional<std::string> read_chatml_literals(const TemplateCode& t, ChatFormat& format) {
  for (const std::string& literal : t.literals) {
    if (literal.find("<|") == std::string::npos) continue;
    if (is_one_of(literal, {"<|im_start|>", "<|im_end|>", "<|im_end|>\n", "<|im_start|>system\n", "<|im_start|>user",
                            "<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n"})) {
      continue;
    }
    if (literal.ends_with("</tool_call><|im_end|>\n") && literal.find("<|") == literal.rfind("<|")) continue;
    const auto system = between(literal, "<|im_start|>system\n", "<|im_end|>\n");
    const bool known = system && !system->empty() && system->find("<|") == std::string::npos &&
                       (format.default_system.empty() || format.default_system == *system);
    if (!known) return "it writes " + in_quotes(literal);
    format.default_system = *system;
  }
  return {};
}

std::optional<std::string> read_thinking(const TemplateCode& t, ChatFormat& format) {
  constexpr std::string_view kStart = "{%if add_generation_prompt%}{{'<|im_start|>assistant\\n";
  const std::string plain = std::string(kStart) + "'}}{%endif%}",
                    always = std::string(kStart) + "<think>\\n'}}{%endif%}";
  const std::string choice = std::string(kStart) +
                             "'}}{%if enable_thinking is defined and enable_thinking is false%}"
                             "{{'<think>\\n\\n</think>\\n\\n'}}{%endif%}{%endif%}";
  const std::string_view generation = generation_code(t);
  if (generation == plain && !has(t, "think>")) return {};
  format.thinking = generation == always ? ChatFormat::Thinking::always : ChatFormat::Thinking::choice;
  if (generation != always && generation != choice) return "it asks for the answer in another way";
  const bool splits =
      has(t, "content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')") &&
      has(t, "content.split('</think>')[-1].lstrip('\\n')") && has(t, "loop.index0>ns.last_query_index") &&
      has(t, "{{'<|im_start|>'+message.role+'\\n'+content}}") &&
      has(t, "loop.last or(not loop.last and reasoning_content)") && has(t, ".startswith('<tool_response>')") &&
      has(t, "'\\n<think>\\n'+reasoning_content.strip('\\n')+'\\n</think>\\n\\n'+content.lstrip('\\n')");
  if (!splits) return "it treats past thinking in another way";
  return {};
}

Result recognise_chatml(const TemplateCode& t) {
  ChatFormat format;
  if (auto reason = read_chatml_literals(t, format)) return *reason;
  constexpr std::string_view kHead = "'<|im_start|>'+message.role+'\\n'+", kTail = "content+'<|im_end|>'+'\\n'";
  const std::string head(kHead), tail(kTail);
  if (!has(t, head + tail) && !has(t, head + "message." + tail)) return "it writes turns in another way";
  if (auto reason = read_thinking(t, format)) return *reason;
  const bool defaults = has(t, "messages[0].role=='system'") || has(t, "messages[0].role!='system'");
  if (!format.default_system.empty() && !defaults) return "it gives a system message in another way";
  format.name = format.thinking == ChatFormat::Thinking::choice   ? "Qwen3"
                : format.thinking == ChatFormat::Thinking::always ? "Qwen3 (always thinking)"
                : format.default_system.empty()                   ? "ChatML"
                : has(t, "{%if tools%}")                          ? "Qwen2.5"
                : has(t, "SmolLM")                                ? "SmolLM2"
                                                                  : "Qwen2";
  return format;
}

std::optional<std::string> read_preamble(const TemplateCode& t, ChatFormat& format) {
  const auto cut = std::find_if(t.literals.begin(), t.literals.end(),
                                [](const std::string& s) { return s.starts_with("Cutting Knowledge Date"); });
  if (cut == t.literals.end() && !has(t, "date_string") && !has(t, "system_message")) return {};
  if (cut == t.literals.end()) return "it begins with dates in another way";
  const auto knowledge = between(*cut, "Cutting Knowledge Date: ", "\n");
  const bool written = has(t, "{{" + template_literal(*cut) + "}}{{'Today Date: '+date_string+'\\n\\n'}}") &&
                       has(t, "{{'<|start_header_id|>system<|end_header_id|>\\n\\n'}}") &&
                       has(t, "{%set system_message=messages[0].content|trim%}") &&
                       has(t, "{{system_message}}{{'<|eot_id|>'}}") && t.code.starts_with("{{bos_token}}");
  constexpr std::string_view kDate = "{%set date_string='";
  const std::size_t at = t.code.rfind(kDate);
  if (!knowledge || !written || at == std::string::npos) return "it begins with dates in another way";
  const std::size_t begin = at + kDate.size();
  format.preamble = true;
  format.knowledge_date = *knowledge;
  format.date = t.code.substr(begin, t.code.find('\'', begin) - begin);
  return {};
}

Result recognise_headers(const TemplateCode& t) {
  for (const std::string& literal : t.literals) {
    const auto role = between(literal, "<|start_header_id|>", "<|end_header_id|>\n\n");
    if (role && is_one_of(*role, {"system", "user", "assistant", "ipython"})) continue;
    const bool known =
        literal.find("<|") == std::string::npos || is_one_of(literal, {"<|start_header_id|>", "<|end_header_id|>\n\n",
                                                                       "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"});
    if (!known) return "it writes " + in_quotes(literal);
  }
  ChatFormat format{.name = "Llama 3", .turns = ChatFormat::Turns::headers};
  if (!has(t, "'<|start_header_id|>'+message.role+'<|end_header_id|>\\n\\n'+message.content|trim+'<|eot_id|>'")) {
    return "it writes turns in another way";
  }
  const bool begins =
      t.code.starts_with("{{bos_token}}") || has(t, "{%if loop.index0==0%}{%set content=bos_token+content%}{%endif%}");
  if (!begins) return "it begins in another way";
  if (generation_code(t) !=
      "{%if add_generation_prompt%}{{'<|start_header_id|>assistant<|end_header_id|>\\n\\n'}}{%endif%}") {
    return "it asks for the answer in another way";
  }
  if (auto reason = read_preamble(t, format)) return *reason;
  if (format.preamble) format.name = has(t, "strftime_now") ? "Llama 3.2" : "Llama 3.1";
  return format;
}

/// DeepSeek-R1 and what was distilled from it. The parts about tools may write what they like: there are no tools.
Result recognise_marks(const TemplateCode& t) {
  const std::string user(kUserMark), assistant(kAssistantMark), end(kEndMark), thinks = assistant + "<think>\n";
  for (const std::string& literal : t.literals) {
    if (literal.find("<｜") == std::string::npos || literal.find("<｜tool▁") != std::string::npos) continue;
    if (literal != user && literal != assistant && literal != end && literal != thinks)
      return "it writes " + in_quotes(literal);
  }
  ChatFormat format{.name = "DeepSeek-R1", .turns = ChatFormat::Turns::marks};
  const bool turns = has(t, "{{'" + user + "'+message.content}}") &&
                     has(t, "{%set content=content.split('</think>')[-1]%}") &&
                     has(t, "{{'" + assistant + "'+content+'" + end + "'}}");
  if (!turns) return "it writes turns in another way";
  format.joins_systems = has(t, "{%set ns.system_prompt=ns.system_prompt+'\\n\\n'+message.content%}");
  const bool last_alone = has(t, "{%set ns.system_prompt=message.content%}");
  if (format.joins_systems == last_alone || !has(t, "{{bos_token}}{{ns.system_prompt}}"))
    return "it gives a system message in another way";
  const auto asks = [&](const std::string& literal) {
    for (const char* condition : {"add_generation_prompt and not ns.is_tool", "add_generation_prompt"}) {
      if (t.code.ends_with("{%if " + std::string(condition) + "%}{{" + template_literal(literal) + "}}{%endif%}"))
        return true;
    }
    return false;
  };
  if (!asks(assistant) && !asks(thinks)) return "it asks for the answer in another way";
  if (asks(thinks)) format.thinking = ChatFormat::Thinking::always, format.name += " (always thinking)";
  return format;
}

}  // namespace

Result recognise_chat_format(std::string_view jinja) {
  const auto t = TemplateCode::read(jinja);
  if (!t) return "it cannot be read";
  const bool chatml = has(*t, "<|im_start|>"), headers = has(*t, "<|start_header_id|>"), marks = has(*t, kUserMark);
  if (chatml + headers + marks != 1)
    return "it has none of <|im_start|>, <|start_header_id|> and <｜User｜>, or several";
  if (t->prints_between) return "it prints text between its tags";
  for (const std::string& word : t->words) {
    const bool known = is_number(word) || std::find(std::begin(kNames), std::end(kNames), word) != std::end(kNames);
    if (!known) return "it uses " + in_quotes(word);
  }
  if (!is_balanced(*t)) return "its blocks are not closed";
  if (const auto text = foreign_comparison(*t)) return "it compares something with " + in_quotes(*text);
  return chatml ? recognise_chatml(*t) : headers ? recognise_headers(*t) : recognise_marks(*t);
}

}  // namespace kvscope

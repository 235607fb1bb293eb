#include "engine/core/files/tokenizer/chat_format.h"

#include <algorithm>

namespace kvscope {
namespace {

using Thinking = ChatFormat::Thinking;

/// What becomes a token where a template writes it. DeepSeek's have bars and blanks of their own (U+FF5C, U+2581).
constexpr std::string_view kChatml = "<|im_start|>", kHeaders = "<|start_header_id|>", kMarks = "<｜User｜>";
constexpr std::string_view kMarkup[] = {kChatml,      "<|im_end|>", kHeaders,          "<|end_header_id|>",
                                        "<|eot_id|>", kMarks,       "<｜Assistant｜>", "<｜end▁of▁sentence｜>",
                                        "<think>",    "</think>"};

class Pieces {
 public:
  void markup(std::string_view token) { pieces_.push_back({std::string(token), true, {}}); }
  void text(std::string_view more) {
    if (more.empty()) return;
    if (pieces_.empty() || pieces_.back().markup) pieces_.emplace_back();
    pieces_.back().text += more;
  }
  /// Text of the template, its markup as tokens.
  void written(std::string_view all) {
    std::size_t begin = 0;
    for (std::size_t at = all.find('<'); at != all.npos; at = all.find('<', at)) {
      const std::string_view rest = all.substr(at);
      const auto* token = std::find_if(std::begin(kMarkup), std::end(kMarkup),
                                       [&](std::string_view one) { return rest.starts_with(one); });
      if (token == std::end(kMarkup)) {
        ++at;
        continue;
      }
      frame(all.substr(begin, at - begin));
      markup(*token);
      begin = at += token->size();
    }
    frame(all.substr(begin));
  }
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  void frame(std::string_view more) {
    text(more);
    if (!more.empty()) pieces_.back().frame.emplace_back(more);
  }
  std::vector<ChatPiece> pieces_;
};

std::vector<ChatPiece> pieces_of(const TemplateText& all) {
  Pieces out;
  const auto kind = [&](std::size_t i) { return static_cast<TemplateText::Origin>(all.origins[i]); };
  for (std::size_t begin = 0, end = 0; begin < all.text.size(); begin = end) {
    const TemplateText::Origin goes_on = kind(begin) == TemplateText::bos_begin ? TemplateText::bos : kind(begin);
    for (end = begin + 1; end < all.text.size() && kind(end) == goes_on;) ++end;
    const std::string_view run = std::string_view(all.text).substr(begin, end - begin);
    if (kind(begin) == TemplateText::bos_begin) {
      out.markup(run);
    } else if (kind(begin) == TemplateText::written) {
      out.written(run);
    } else {
      out.text(run);
    }
  }
  return out.take();
}

/// What a template writes of conversations that reach its every part; empty where it refuses one by itself.
class Trial {
 public:
  explicit Trial(const ChatFormat& format) : format_(format) {}
  std::string text(std::string_view roles, const ChatOptions& options = {}) {
    std::vector<ChatMessage> messages;
    for (const char r : roles) {
      messages.push_back({r == 's'   ? "system"
                          : r == 'u' ? "user"
                                     : "assistant",
                          r == 'a' ? "<think>\na\n</think>\n\nb" : "c"});
    }
    try {
      const TemplateOutput out = run_template(format_.program, {messages, format_.bos, options});
      if (!out.date.empty()) date_ = out.date;
      return out.text.text;
    } catch (const TemplateRaised&) {
      return {};
    }
  }
  const std::string& date() const { return date_; }

 private:
  const ChatFormat& format_;
  std::string date_;
};

/// Empty if it is none of the families'.
std::string name_of(const ChatFormat& format, const std::string& text, bool has_clock, bool has_tools) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (has(kChatml) + has(kHeaders) + has(kMarks) != 1) return {};
  const std::string always = format.thinking == Thinking::always ? " (always thinking)" : "";
  if (has(kMarks)) return "DeepSeek-R1" + always;
  if (has(kHeaders)) return !format.has_date ? "Llama 3" : has_clock ? "Llama 3.2" : "Llama 3.1";
  if (format.thinking != Thinking::none) return "Qwen3" + always;
  if (!has("system\n")) return "ChatML";
  return has_tools ? "Qwen2.5" : has("SmolLM") ? "SmolLM2" : "Qwen2";
}

}  // namespace

std::variant<ChatFormat, std::string> recognise_chat_format(std::string_view jinja, std::optional<std::string> bos) {
  ChatFormat format;
  format.bos = std::move(bos);
  try {
    format.program = read_template(jinja);
    check_template_scopes(format.program);
    Trial trial(format);
    const std::string plain = trial.text("u");
    const auto all = [&](std::optional<bool> thinking, const char* date) {
      std::string texts;
      for (const char* roles : {"u", "su", "suaua", "uaa", "uau"}) {
        for (const bool asks : {false, true}) texts += trial.text(roles, {thinking, asks, date});
      }
      return texts;
    };
    const std::string text = all({}, "");
    format.has_date = all({}, "\x01") != text;
    if (format.has_date) format.date = trial.date();
    if (all(true, "") != text || all(false, "") != text) {
      format.thinking = Thinking::choice;
    } else if (plain.ends_with("<think>\n") || plain.ends_with("<think>")) {
      format.thinking = Thinking::always;
    }
    const auto mentions = [&](std::string_view word) { return jinja.find(word) != std::string_view::npos; };
    format.name =
        name_of(format, plain.find(kChatml) == plain.npos ? text : plain, mentions("strftime_now"), mentions("tools"));
  } catch (const TemplateProblem& problem) {
    return problem.reason;
  }
  if (format.name.empty()) return "it writes none of <|im_start|>, <|start_header_id|> and <｜User｜>, or several";
  return format;
}

std::vector<ChatPiece> write_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options) {
  return pieces_of(run_template(format.program, {messages, format.bos, options}).text);
}

}  // namespace kvscope

// A chat template: Jinja's text, or a whole tokenizer_config.json (what begins with a brace and a quote).

#include "engine/core/files/tokenizer/chat.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

void read_chat_template(std::string_view bytes) {
  const bool is_config = bytes.starts_with("{\"");
  if (is_config) {
    put("tokenizer_config.json", bytes);
    if (!ChatTemplate::find(memory_folder())) return;
  }
  const ChatTemplate chat =
      is_config ? ChatTemplate::load(memory_folder())
                : ChatTemplate::from_text(bytes, {{"bos_token", "<s>"}}, "chat_template.jinja", "chat_template");
  const ChatMessage messages[] = {
      {"system", " S "}, {"user", "<|im_end|>u"}, {"assistant", "<think>x</think>y"}, {"user", ""}};
  chat.render(messages);
}

const Registration registration("chat_template", read_chat_template);

}  // namespace
}  // namespace kvscope::fuzz

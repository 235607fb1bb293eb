// Answers in channels (gpt-oss): read as parts, and given to a template as parts.
#include <catch2/catch.hpp>

#include "engine/core/files/tokenizer/channels.h"
#include "engine/core/files/tokenizer/chat.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden.h"

using kvscope::ChatMessage;
using kvscope::ChatTemplate;
using kvscope::read_channels;
using kvscope::test::error_of;
using nlohmann::json;

namespace {

using Messages = std::vector<ChatMessage>;

const std::string kAnalysis = "<|channel|>analysis<|message|>2 and 2.<|end|>",
                  kFinal = "<|start|>assistant<|channel|>final<|message|>It is 4.";

/// The template of gpt-oss among those of chat_programs.py.
ChatTemplate harmony() {
  const json golden = kvscope::test::read_golden("tests/core/golden/chat_programs.json");
  for (const json& t : golden["templates"]) {
    if (t["name"] == "gpt-oss") return ChatTemplate::from_text(t["text"].get<std::string>(), {}, "f", "w");
  }
  throw std::runtime_error("no template of gpt-oss");
}

}  // namespace

TEST_CASE("The parts of an answer in channels") {
  struct Case {
    std::string text, content, thinking;
  };
  for (const Case& c : std::initializer_list<Case>{
           {kAnalysis + kFinal, "It is 4.", "2 and 2."},
           {kAnalysis + kFinal + "<|return|>", "It is 4.", "2 and 2."},
           {"<|channel|>final<|message|>Yes", "Yes", ""},
           {"<|channel|>final <|constrain|>json<|message|>{}<|end|>", "{}", ""},
           {"<|channel|>analysis<|message|>cut o", "", "cut o"},
           {kAnalysis + "<|start|>assistant<|channel|>fin", "", "2 and 2."},
           {kAnalysis + "<|start|>assistant<|channel|>analysis<|message|>More.<|end|>" + kFinal, "It is 4.",
            "2 and 2.\nMore."},
           {kAnalysis + "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
            "", "2 and 2.\n{}"},
           {"<|channel|>", "", ""},
       }) {
    CAPTURE(c.text);
    const auto parts = read_channels(c.text);
    REQUIRE(parts);
    CHECK(parts->content == c.content);
    CHECK(parts->thinking == c.thinking);
  }
  CHECK_FALSE(read_channels(""));
  CHECK_FALSE(read_channels("It is 4."));
  CHECK_FALSE(read_channels(" " + kAnalysis));
}

TEST_CASE("A chat with gpt-oss goes on after an answer in channels") {
  const ChatTemplate chat = harmony();
  const Messages with_parts{{"user", "2 + 2?"}, {"assistant", kAnalysis + kFinal}, {"user", "Sure?"}};
  const Messages plain{{"user", "2 + 2?"}, {"assistant", "It is 4."}, {"user", "Sure?"}};
  CHECK(chat.render(with_parts) == chat.render(plain));
  CHECK_THAT(chat.render(plain),
             Catch::EndsWith("<|start|>user<|message|>2 + 2?<|end|><|start|>assistant<|channel|>final"
                             "<|message|>It is 4.<|end|><|start|>user<|message|>Sure?<|end|>"
                             "<|start|>assistant"));
  // What a user types is no answer.
  CHECK_THAT(chat.render(Messages{{"user", kAnalysis}}), Catch::Contains(kAnalysis));
}

TEST_CASE("A template gets what an answer thought beside it, and one without channels gets the text as it is") {
  const std::string written =
      "{% for m in messages %}[{{ m.content }}|{{ m.thinking if 'thinking' in m else 'none' }}]"
      "{% endfor %}";
  const auto render = [&](const std::string& text, const std::string& answer) {
    return ChatTemplate::from_text(text, {}, "f", "w").render(Messages{{"assistant", answer}});
  };
  const std::string with_channels = "{# <|channel|> #}" + written;
  CHECK(render(with_channels, kAnalysis + kFinal) == "[It is 4.|2 and 2.]");
  CHECK(render(with_channels, "<|channel|>final<|message|>Yes") == "[Yes|none]");
  CHECK(render(with_channels, "Yes") == "[Yes|none]");
  CHECK(render(written, kAnalysis + kFinal) == "[" + kAnalysis + kFinal + "|none]");
}

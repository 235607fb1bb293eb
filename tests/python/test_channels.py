"""Answers in channels: read as parts, and given to a template as parts. tests/core/tokenizer_channels_test.cpp has the same answers."""

import unittest

import tiny

if tiny.HAS_TORCH:
    from kvscope import models
    from kvscope.channels import as_parts

ANALYSIS = "<|channel|>analysis<|message|>2 and 2.<|end|>"
START = "<|start|>assistant"
FINAL = START + "<|channel|>final<|message|>It is 4."


@unittest.skipUnless(tiny.HAS_TORCH, "needs torch and transformers")
class Channels(unittest.TestCase):
    def test_parts(self):
        for text, content, thinking in (
            (ANALYSIS + FINAL, "It is 4.", "2 and 2."),
            (ANALYSIS + FINAL + "<|return|>", "It is 4.", "2 and 2."),
            ("<|channel|>final<|message|>Yes", "Yes", None),
            ("<|channel|>final <|constrain|>json<|message|>{}<|end|>", "{}", None),
            ("<|channel|>analysis<|message|>cut o\n", "", "cut o\n"),
            (ANALYSIS + START + "<|channel|>fin", "", "2 and 2."),
            (ANALYSIS + START + ANALYSIS.replace("2 and 2", "More") + FINAL, "It is 4.", "2 and 2.\nMore."),
            ("<|channel|>", "", None),
            ("It is 4.", "It is 4.", None),
        ):
            with self.subTest(text=text):
                parts = as_parts({"role": "assistant", "content": text})
                self.assertEqual((parts["content"], parts.get("thinking")), (content, thinking))
        for role in ("user", "system"):
            message = {"role": role, "content": ANALYSIS}
            self.assertEqual(as_parts(message), message)

    def test_a_template_with_channels_gets_parts_and_another_the_text(self):
        tokenizer = tiny.tokenizer()
        model = models.wrap(tiny.random_model("gpt_oss"), tokenizer, "gpt_oss")
        chat = [{"role": "assistant", "content": ANALYSIS + FINAL}]
        self.assertIn(ANALYSIS.encode(), bytes(model.encode_chat(chat)))
        tokenizer.chat_template = "{# <|channel|> #}{% for m in messages %}[{{ m.content }}|{{ m.thinking }}]{% endfor %}"
        self.assertEqual(bytes(model.encode_chat(chat)), b"[It is 4.|2 and 2.]")


if __name__ == "__main__":
    unittest.main()

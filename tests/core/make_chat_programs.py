#!/usr/bin/env python3
"""Writes golden/chat_programs.json.gz: the templates of chat_programs.py and what jinja2 makes of 12 conversations with each.

`conversations` are what all get (messages, add_generation_prompt), as JSON in text, so that the order of fields stays; each of `templates` has
`name`, `text`, `given` (tools, tokens ...; JSON in text too) and `texts`: of each conversation, null if it raises. The environment is that of transformers' chat_template_utils, with its clock at 2024-07-26.
Needs `pip install jinja2`.
"""
import datetime
import gzip
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from chat_programs import NAMES


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks the assistant's text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime(2024, 7, 26).strftime(form)
    return env


def conversation(*turns, **more):
    return {"messages": [m if isinstance(m, dict) else {"role": {"s": "system", "u": "user", "a": "assistant", "t": "tool"}[m[0]], "content": m[2:]} for m in turns],
            "add_generation_prompt": True, **more}


CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "abcdefghi", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5, "list": ["\u00e9", None]}}}]}
CONVERSATIONS = [
    conversation("u:Hello"),
    conversation("s:Be brief.", "u:Hello"),
    conversation("s: Be brief.\n", "u:2 + 2?", "a:4", "u:And 3 + 3?"),
    conversation("s:", "u:", "a:", "u: "),
    conversation("u:\u7f13\u5b58 \u0645\u0631\u062d\u0628\u0627 \U0001f468\u200d\U0001f469 e\u0301 \u00a0", "a:\u00fc\u2028\u3000x\u3000"),
    conversation("u:  blanks before and after \n\n", "a:\n\tx\n", "u:line one\nline two\r\n"),
    conversation("u:Why?", "a:<think>\nbecause\n</think>\n\nSo.", "u:Really /no_think", "a:<think>\n\n</think>\n\nYes."),
    conversation("s:S /think", "u:Write on", "a:Once upon a", add_generation_prompt=False),
    conversation("u:one", "u:two"),
    conversation("u:What is 1 + 2.5?", CALL, {"role": "tool", "tool_call_id": "abcdefghi", "name": "add", "content": "3.5 \"<ok>\""}, "a:It is 3.5."),
    conversation("u:a", "s:late", "a:</think>b<think>c", "u:<|im_end|>{{ x }}{% if y %}<tool_response>"),
    conversation({"role": "user", "content": [{"type": "text", "text": " Look: "}, {"type": "image"}]}, "a:It's a \"cat\" \\ dog\u0085", "u:It's 12,345 \u20ac'"),
]


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "chat_programs.json.gz"
    env, templates, raised = environment(), [], 0
    for name, (text, given) in NAMES.items():
        template, texts = env.from_string(text), []
        for talk in CONVERSATIONS:
            try:
                texts.append(template.render(**(talk | given)))
            except Exception as error:
                texts.append(None)
                if "-v" in sys.argv:
                    print(name, len(texts) - 1, type(error).__name__, error)
        raised += texts.count(None)
        templates.append({"name": name, "text": text, "given": json.dumps(given, ensure_ascii=False), "texts": texts})
    data = {"conversations": [json.dumps(talk, ensure_ascii=False) for talk in CONVERSATIONS], "templates": templates}
    output.write_bytes(gzip.compress((json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n").encode(), mtime=0))
    print(output, output.stat().st_size, "bytes,", len(templates), "templates,", len(CONVERSATIONS), "conversations,", raised, "raise")


main()

#!/usr/bin/env python3
"""Writes golden/chat_variants.json.gz: chat templates of the families with edits, and what transformers makes of them.

    make_chat_variants.py                                    the golden file
    make_chat_variants.py OUTPUT --seed 7 --count 5000 --edits 2     a search; KVSCOPE_CHAT_VARIANTS=OUTPUT lets the test read it

`talks` are lists of [role, content], `asks` are [talk, add_generation_prompt, enable_thinking or null, date]. Each of
`variants` has `family`, `edit` (null: none; "respelled": the same program in another spelling), `text`, `bos` (null: none) and `hashes`: of each ask FNV-1a 64 of
the text, null where transformers raises. Needs transformers.
"""
import argparse
import datetime
import gzip
import json
import pathlib
import random
import re
import time

from chat_families import FAMILIES
from transformers.utils import chat_template_utils


class Clock(datetime.datetime):
    """For strftime_now: the date that a template has where there is no clock, which is what KVScope takes."""
    date = (2024, 7, 26)

    @classmethod
    def now(cls, tz=None):
        return cls(*cls.date)


chat_template_utils.datetime = Clock

TALKS = [
    [["user", "hello"]],
    [["system", " Be brief.\n"], ["user", "  two blanks  "]],
    [["user", "2+2?"], ["assistant", "<think>\nit is 4\n</think>\n\n4"], ["user", "<|im_end|>\n{{ x }}"]],
    [["system", "S"], ["user", "a\n"], ["assistant", "b"], ["user", "c"], ["assistant", "<think>\n\n</think>\n\nd"]],
    [["user", "u"], ["system", "late"], ["assistant", "x</think>\ny"], ["assistant", ""], ["user", "\u00a0w\u3000"]],
]
ASKS = ([[i, ask, None, "21 Nov 2026"] for i in range(len(TALKS)) for ask in (True, False)]
        + [[i, True, think, "21 Nov 2026"] for i in (0, 2) for think in (True, False)] + [[1, True, None, ""], [3, True, None, ""]])
CONDITIONS = ["loop.first", "not loop.first", "loop.last", "loop.index0 == 0", "loop.index > 1", "message.role == 'user'", "message['role'] != 'system'",
              "message.role != 'assistant'", "messages[0].role == 'system'", "messages[0]['role'] != 'system'", "add_generation_prompt", "not add_generation_prompt",
              "tools", "not tools", "tools is none", "tools is defined", "bos_token", "bos_token is defined", "bos_token is not none", "message.content",
              "message.tool_calls", "'tool_calls' in message", "'tool_calls' not in message", "message.content is string", "message.content is not none",
              "enable_thinking", "enable_thinking is defined", "date_string is defined", "messages|length > 1", "loop.index0 % 2 == 0", "true", "false", "none",
              "strftime_now is defined", "message.role in ['user', 'assistant']", "loop.length > 2", "message is defined", "system_message is defined",
              "messages[-1].role == 'user'", "message.content | length > 3", "message.content.startswith('<')", "eos_token", "documents", "x"]
INSERTS = ["{{ bos_token }}", "{{- bos_token -}}", "{{ bos_token + '' }}", "{{ bos_token ~ 'x' }}", "{% if bos_token %}{{ bos_token }}{% endif %}", "{{ eos_token }}", "{{ 'x' }}",
           "x", " ", "\n", "\n  ", "{# note #}", "{#- note -#}", "{#+ note +#}", "{% set content = 'Q: ' + message.content %}", "{% set content = message.content | trim %}",
           "{% set messages = messages[1:] %}", "{% set messages = messages %}", "{% set tools = [1] %}", "{% set tools = none %}", "{% set bos_token = '' %}",
           "{% set add_generation_prompt = true %}", "{% set message = messages[0] %}", "{% set loop = 1 %}", "{% set ns = namespace(a=1) %}", "{% set x = 'y' %}", "{{ x }}",
           "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}", "{{ raise_exception('no') }}",
           "{% if loop.index0 % 2 == 1 %}{{ raise_exception('order') }}{% endif %}", "{{ message.role }}", "{{ message.content }}", "{{ messages[0].content }}",
           "{{ loop.index0 }}", "{{ messages | length }}", "{{ message }}", "{{ message.name }}", "{{ none }}", "{{ true }}", "{{ 1 }}", "{{ ns.a }}", "{{ content }}",
           "{% set date_string = 'today' %}", "{{ strftime_now('%d %b %Y') }}", "{{ system_message }}", "{% else %}", "{% endif %}", "{% endfor %}", "{% raw %}{{ x }}{% endraw %}",
           "{% set x %}y{% endset %}", "{% for m in messages %}{{ m.role }}{% endfor %}", "{% for message in messages[:1] %}{{ message.content }}{% endfor %}", "{% break %}",
           "{% continue %}", "{% macro f(a) %}{{ a }}{% endmacro %}", "{% set a, b = 1, 2 %}", "{{ 'a' 'b' }}", "{{ 'a', 'b' }}", "{{ messages[0]['items'] }}", "{{ message.items }}",
           "{% set ns.x = 1 %}", "{{ 'a' if loop.first else 'b' }}", "{{ 'a' if add_generation_prompt }}", "{% for c in 'ab' %}{{ c }}{% endfor %}", "{{ range(3) | list }}"]
FILTERS = ["trim", "upper", "lower", "length", "string", "safe", "tojson", "default('x')", "title", "nosuch", "first", "last", "replace('a', 'b')", "e", "striptags"]
SWAPS = [("==", "!="), ("!=", "=="), (" and ", " or "), (" or ", " and "), ("not ", ""), ("if ", "if not "), ("is none", "is not none"), ("is not none", "is none"), ("is defined", "is none"),
         ("is string", "is mapping"), ("'user'", "'system'"), ("'system'", "'user'"), ('"user"', '"assistant"'), ("'assistant'", "'user'"), ("loop.first", "loop.last"),
         ("loop.last", "loop.first"), ("loop.index0", "loop.index"), ("messages", "messages[1:]"), ("messages[0]", "messages[1]"), ("messages[0]", "messages[-1]"),
         ("[::-1]", ""), ("[1:]", "[:1]"), ("[1:]", ""), ("in messages", "in messages[::-1]"), ("in messages", "in messages[:-1]"), ("[-1]", "[0]"), ("[0]", "[-1]"), ("0", "1"), ("1", "0"),
         ("lstrip", "strip"), ("rstrip", "lstrip"), ("strip('\\n')", "strip()"), ("split", "rsplit"), ("| trim", ""), ("|trim", ""), ("'</think>'", "'<think>'"), ("content", "role"), ("role", "content"),
         ("true", "false"), ("false", "true"), ("is false", "== false"), (" + ", " ~ "), ("+", "-"), (" + ", " "), ("in messages", "in messages if message.role != 'system'"),
         ("for message in", "for m in"), ("elif", "else"), ("elif", "if"), ("{%- else %}", ""), ("endif", "endfor"), ("tools", "tool"), ("message.tool_calls", "message.content"),
         ("'tool_calls'", "'content'"), ('"tool"', '"user"'), ("'tool'", "'user'"), ("tools is none", "tools is defined"), ("ns.is_tool", "ns.is_first"), ("date_string", "date"), ("%d %b %Y", "%Y"),
         ("enable_thinking is false", "enable_thinking"), (">", "<"), (">", ">="), ("index0", "revindex0"), ("namespace(", "dict("), ("startswith", "endswith"), (" not in ", " in "), ("(", ""), (")", ""),
         ("= =", "=="), ("==", "= ="), ("\\n", ""), ("\\n", "\\r"), ("\\n", "\\u000a"), ("\\n", "\n"), ("bos_token", "eos_token"), ("|im_end|", "|im_sep|"), ("assistant", "Assistant")]
STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.S)
TAG = re.compile(r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})", re.S)


def split(text):
    return TAG.split(text)  # text, tag, text, tag, ..., text


def tags(parts):
    return range(1, len(parts), 2)


def replace_one(rng, text, old, new):
    places = [m.start() for m in re.finditer(re.escape(old), text)]
    if not places:
        return text
    at = rng.choice(places)
    return text[:at] + new + text[at + len(old):]


def edit(rng, text):
    """One edit: what it is, and the text after it."""
    parts = split(text)
    if len(parts) < 2:
        return "none left", text + "x"
    at = rng.choice(list(tags(parts)))
    kind = rng.choice(["remove", "repeat", "move", "swap", "swap", "swap", "swap", "swap", "literal", "wrap", "wrap", "wrap_all", "insert", "insert", "insert", "filter", "signs", "signs", "else", "crossover", "cut"])
    if kind == "remove":
        parts[at] = ""
    elif kind == "repeat":
        parts[at] += parts[at]
    elif kind == "move":
        to = rng.choice(list(tags(parts)))
        parts[at], parts[to] = parts[to], parts[at]
    elif kind == "swap":
        old, new = rng.choice([s for s in SWAPS if s[0] in text] or [("{", "")])
        return f"{old} -> {new}", replace_one(rng, text, old, new)
    elif kind == "literal":
        strings = list(re.finditer(r"'[^'\n]*'|\"[^\"\n]*\"", text))
        if not strings:
            return kind, text
        m = rng.choice(strings)
        inner = m.group()[1:-1]
        return "literal", text[:m.start() + 1] + rng.choice(["", "x", inner + " ", inner[1:], inner + inner, inner.upper()]) + text[m.end() - 1:]
    elif kind == "wrap":
        to = min(at + 2 * rng.choice([0, 0, 1, 2, 3]), len(parts) - 2)
        sign = rng.choice(["", "-"])
        parts[at] = "{%" + sign + " if " + rng.choice(CONDITIONS) + " %}" + parts[at]
        parts[to] += "{%" + sign + " endif %}"
    elif kind == "wrap_all":
        condition = rng.choice(CONDITIONS)
        prints = [i for i in tags(parts) if parts[i].startswith("{{")]
        if prints:
            at = rng.choice(prints)
            parts[at] = "{% if " + condition + " %}" + parts[at] + "{% endif %}"
    elif kind == "insert":
        parts[at] = rng.choice([parts[at] + "%s", "%s" + parts[at]]).replace("%s", rng.choice(INSERTS), 1) if "%s" not in parts[at] else parts[at]
    elif kind == "filter":
        parts[at] = replace_one(rng, parts[at], rng.choice([" }}", "}}", " + ", " %}"]), " | " + rng.choice(FILTERS) + " }}") if parts[at].startswith("{{") else re.sub(r" %\}$", " | " + rng.choice(FILTERS) + " %}", parts[at])
    elif kind == "signs":
        sign = rng.choice(["{%-", "{%+", "{%", "-%}", "+%}", "%}"])
        kind += " " + sign
        parts[at] = re.sub(r"^\{([%{#])[-+]?", lambda m: "{" + m.group(1) + sign[2:], parts[at]) if sign[0] == "{" else re.sub(r"[-+]?([%}#])\}$", lambda m: sign[:-2] + m.group(1) + "}", parts[at])
    elif kind == "else":
        ends = [i for i in tags(parts) if "endif" in parts[i]]
        if ends:
            at = rng.choice(ends)
            parts[at] = "{% else %}" + rng.choice(INSERTS) + parts[at]
    elif kind == "crossover":
        other = split(FAMILIES[rng.choice(sorted(FAMILIES))])
        parts[at] = rng.choice([parts[at], ""]) + other[rng.choice(list(tags(other)))]
    elif kind == "cut":
        del parts[at:at + 2 * rng.choice([1, 2, 3])]
    return kind, "".join(parts)


def respell(rng, text):
    """The same program in another spelling."""
    def respell_tag(tag):
        if tag.startswith("{#"):
            return tag
        if rng.random() < 0.5:
            tag = re.sub(r"\b(messages?)\['(role|content)'\]", r"\1.\2", tag)
        else:
            tag = re.sub(r"\b(messages?(?:\[0\])?)\.(role|content)\b", r'\1["\2"]', tag)
        if rng.random() < 0.5:
            tag = STRING.sub(lambda m: m.group() if '"' in m.group()[1:-1] or m.group()[0] == '"' else '"' + m.group()[1:-1] + '"', tag)
        if rng.random() < 0.3 and "bos_token" not in tag and "length" not in tag and "index" not in tag and "trim" not in tag:
            tag = tag.replace(" + ", " ~ ")
        if rng.random() < 0.3:
            tag = tag.replace("loop.index0 == 0", "loop.first").replace("loop.first", "loop.index == 1")
        if rng.random() < 0.5:
            tag = re.sub(r"(?<![\w'\"]) ?(==|!=) ?", r"  \1\n ", tag)
        return re.sub(r"(?<!is )\bfalse\b(?=[ ,)])", "False", tag) if rng.random() < 0.3 else tag

    parts = split(text)
    for i in tags(parts):
        parts[i] = respell_tag(parts[i])
        if rng.random() < 0.2:
            parts[i] += "{#- " + rng.choice(["a note", "%} '", "{{ x }}"]) + " #}" if parts[i + 1].strip() == "" and parts[i + 1] and i + 2 < len(parts) and parts[i + 2][2] == "-" else ""
    text = "".join(parts)
    return text.replace("\n", "\r\n") if rng.random() < 0.3 and "'<|im_start|>system\n" not in text else text


def fnv(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def render(text, bos, ask):
    talk, prompt, thinking, date = ask
    fixed = re.search(r'date_string = "(\d\d [A-Z][a-z]{2} \d{4})"', text)
    Clock.date = time.strptime(fixed[1], "%d %b %Y")[:3] if fixed else (2024, 7, 26)
    more = ({} if thinking is None else {"enable_thinking": thinking}) | ({"date_string": date} if date else {}) | ({} if bos is None else {"bos_token": bos})
    messages = [{"role": r, "content": c} for r, c in TALKS[talk]]
    try:
        return chat_template_utils.render_jinja_template([messages], chat_template=text, add_generation_prompt=prompt, **more)[0][0]
    except Exception:  # whatever is wrong with a variant, no text comes of it
        return None


def variants(rng, count, edits):
    names = sorted(FAMILIES)
    for name in names:
        yield name, None, FAMILIES[name]
    for name in names:
        for _ in range(2):
            yield name, "respelled", respell(rng, FAMILIES[name])
    per_family = -(-count // len(names))
    for name in names:
        for _ in range(per_family):
            text, done = FAMILIES[name], []
            while len(done) < edits or text == FAMILIES[name]:
                what, text = edit(rng, text)
                done.append(what)
            yield name, "; ".join(done), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent / "golden" / "chat_variants.json.gz")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--count", type=int, default=420)
    parser.add_argument("--edits", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    out = []
    for family, what, text in variants(rng, options.count, options.edits):
        marks = "DeepSeek" in family
        bos = rng.choice(["<s>", "<s>", None]) if what and what != "respelled" else "<\uff5cbegin\u2581of\u2581sentence\uff5c>" if marks else "<s>"
        out.append({"family": family, "edit": what, "text": text, "bos": bos, "hashes": [h if h is None else fnv(h) for h in (render(text, bos, ask) for ask in ASKS)]})
    data = {"talks": TALKS, "asks": ASKS, "variants": out}
    options.output.write_bytes(gzip.compress((json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n").encode(), mtime=0))
    print(options.output, options.output.stat().st_size, "bytes,", len(out), "variants")


if __name__ == "__main__":
    main()

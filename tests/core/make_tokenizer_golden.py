#!/usr/bin/env python3
"""Writes golden/tokenizer_{qwen2,llama3,gpt2}.json: small tokenizers of the three families and what the `tokenizers`
package makes of difficult texts. Needs `pip install tokenizers`; takes two minutes.

    python3 tests/core/make_tokenizer_golden.py [FAMILY...]

Each file holds `tokenizer` (a tokenizer.json), `cases` (text, ids with special tokens parsed, ids with them left as text,
ids with the post-processor's), `random` (seeded random texts, each with a hash of its ids) and `blocks` (for every 4096
code points a hash of the ids of each one alone, between letters and after an apostrophe). Hashes are FNV-1a 64 over the
ids as little-endian 32-bit numbers.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

CORPUS = [
    "The cache keeps what the model will read again, and forgets the rest. It's a budget: you'll see what they've kept,",
    "what we're dropping, and why I'd rather not. The window slides; the sinks stay. Each head has its own memory.",
    "In 2026 the 128 heads of 36 layers held 4096 tokens, 1,048,576 entries and 0.25 of the bytes.\n\n  - one\n  - two\n",
    "def attend(q, k, v):\n    for t in range(len(k)):\n        score = q @ k[t]  # a dot product\n    return softmax(score)\n",
    "Größe, Führer, déjà vu, naïve, Việt Nam, Cửa Việt, señor, Łódź, smörgåsbord. Привет, мир! Память модели.",
    "ключ и значение. 缓存保留模型将再次读取的内容。记忆と忘却。기억과 망각. शब्द और स्मृति। ذاكرة النموذج. זיכרון המודל.",
    "if (x != 0) { return x->y; } // fine\t\t\tint main() { return 0; }\r\n\r\n\"quoted\" 'single' `code` ... --- === ###",
]

TORTURE = [
    "", " ", "  ", "   ", "a", " a", "  a", "   a", "a ", "a  ", "\n", "\n\n", " \n", "\n ", " \n ", "\r\n\r\n  x", "\r", "\r \n \r a",
    "\t", "\t\t", "\ta", "\t a", " \ta", "\n\tx", "\n\x0b  ", "\x0b\x0c", "a\n", "a\n\nb", "a \n\n  b", "a  \n", "x\u0085y", "\u0085\u0085",
    "\u00a0", "a\u00a0b", "\u00a0a", "\u1680x", "\u180ex", "\u200bx", "\u200b \u200b", "\u2028x\u2029", "\u3000x", "\ufeffx", "\u2003 \u2003x",
    "\x1c\x1d\x1e\x1f", "a\x1cb", "\x00", "a\x00b", "\x7f\x80\x9f", "\x1b[31mred\x1b[0m",
    "'s", "'S", "'\u017f", "it's", "IT'S", "It'\u017f", "'t'T", "'re'RE'Re'rE", "'ve'VE'vE", "'m'M", "'ll'LL'lL'Ll", "'d'D", "'sa", "'lla",
    "'l", "'r", "'v", "'", "''", "''s", "'''s", " 's", "x 's", "\u2019s", "can't've", "'rE'", "'\u212a", "'\ufb06", "'L\u0131", "y'all'd've",
    "1", "12", "123", "1234", "12345", "123456789012", "1 23 456", "a1b22c333", "1,000,000.00", "\u00bd", "\u2165", "\u00b2", "\u0663\u0664\u0665\u0666",
    "x\u00b2+y\u00b2", "\u2460\u2461", "\U0001d7d8\U0001d7d9", "\u3007\u4e00", "\u0be7\u0be8\u0be9\u0bea", "3.14e-10", "0x1F", " 12", "  12",
    "!", "!!", " !!", "  !!", "!\n", "!\r\n\n", "! \n", "?!\n\n\nx", "a!b", "(a)", " (a", "((a", "--a", "#include <x>\n", "a_b", "__init__", "@x", "$100",
    "\u20ac5", "\u00a9\u00ae", "...", "\u2026", " \u2e4e", "\u2014a", "~~~\n~~~\n", "a/b\\c", "https://example.org/a?b=c&d=%20#e",
    "\u00e9", "e\u0301", "e\u0301\u0323", "e\u0323\u0301", "q\u0307\u0323", "\u1ee9", "u\u031b\u0301", "u\u0301\u031b", "\u212b", "A\u030a", "\u2126", "\u0344", "\u0958",
    "\u0301", " \u0301", "a\u0301\u0301\u0301", "\u0301a", "a\u200d\u0301", "\u07fda\u0301\u07fd", "\u1e9b\u0323", "\ufb1d", "\u0f73", "\u0dddx", "\u09c7\u09be",
    "\u1112\u1161\u11ab", "\u1100\u1161", "\uac00\u11a8", "\uac01\u11a8", "\u1100\u1100\u1161", "\uac00\u11a7", "\u1161\u1161", "\ud55c\uae00", "\uac00\u0300",
    "\ua3e4", "\uffff", "\ufdd0", "\U0010ffff", "\ue000\U000f0000", "\u0378\u0379", "\U0001f9ff\U0001fae0", "\U0002ebf0", "\u9ffd", "\U000e0041",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "a\U0001f600b", " \U0001f600", "\U0001f600\n",
    "Vi\u1ec7t", "Vie\u0323\u0302t", "F\u00fchrer", "Fu\u0308hrer", "C\u1eeda Vi\u1ec7t", "\u0130stanbul", "\u00df\u1e9e", "\ufb01n", "\u01c5", "\u02b0\u02b1", "\u00aa\u00ba",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u05e9\u05dc\u05d5\u05dd", "\u202eabc\u202c", "\u200f\u200e", "\u0627\u0651\u064e", "\u05e9\u05c1\u05bc",
    "\u4f60\u597d\u4e16\u754c", "\u4f60\u597d, world", "\u3053\u3093\u306b\u3061\u306f", "\u304b\u3099", "\u30cf\u309a", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u1019\u103c\u1014\u103a\u1019\u102c",
    "<|im_end|>", "<|im_end", "|im_end|>", "<|im_end|><|im_start|>system", "a<|im_end|>b", " <|im_end|> ", "<|im_start|>user\nhi<|im_end|>\n",
    "<|endoftext|><|endoftext|>", "<|im_<|im_end|>", "<|IM_END|>", "<s>a", "<a<ab>", "<ab>", "<abc>", "<a", "<a<a<ab>", "<think>\nx\n</think>\n",
    " \n<lst>  x", "a \t<lst>b", "<rst> \n x", "<rst><rst>  <lst>", "<rst>  <lst>", "x<sw>y", "x <sw> y", "<sw>", "_<sw>", "\u00e9<sw>", "-<sw>-", "<sw><sw>", "\u0301<sw>", "<sw>\u200d",
    "ca\u0301fe", "c\u00e1fe", "xc\u00e1fey", "cauldron", " cauldron", "cauldrons", "  cauldron\n", "The cauldron's",
    "def f(x):\n    return x\n\n\n\ndef g():\n\tpass\n", "{\"a\": [1, 2.5, null]}", "SELECT * FROM t WHERE a='b';", "<html>\n  <b>x</b>\n</html>",
    "word " * 20, "a" * 200, " " * 200, "\n" * 200, "9" * 200, "'" * 200, "\u4e00" * 100, "\u0301" * 100, "ab" * 100, "\r\n" * 50, "the" * 70, " the" * 70,
    " " * 65 + "x", "\n" * 64 + " x", "!" * 100 + "\n" * 3, "aA" * 60, "supercalifragilisticexpialidocious" * 4,
]


def fnv(ids, h=0xCBF29CE484222325):
    for i in ids:
        for byte in i.to_bytes(4, "little"):
            h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def trained(split, use_regex, add_prefix_space):
    level = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = level if use_regex else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), behavior="isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS * 2, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, show_progress=False, min_frequency=2))
    return tokenizer


def qwen2():
    tokenizer = trained(QWEN2, False, False)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    tokenizer.add_tokens([AddedToken("ca\u0301fe", normalized=True)])
    return json.loads(tokenizer.to_str())


def llama3():
    data = json.loads(trained(LLAMA3, False, False).to_str())
    # Whole words that no merge reaches: only ignore_merges finds them. Before the added tokens, which the package numbers
    # from the size of the vocabulary on.
    data["model"]["ignore_merges"] = True
    for word in "\u0120cauldron", "cauldron", "Vi\u00e1\u00bb\u0129t", "123":
        data["model"]["vocab"].setdefault(word, len(data["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|im_end|>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A <|end_of_text|>",
            pair="<|begin_of_text|> $A <|end_of_text|> $B",
            special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<|begin_of_text|>", "<|end_of_text|>")])])
    return json.loads(tokenizer.to_str())


def gpt2():
    tokenizer = trained(None, True, True)
    tokenizer.add_special_tokens(["<|endoftext|>", "<s>"])
    tokenizer.add_tokens([
        AddedToken("<lst>", lstrip=True), AddedToken("<rst>", rstrip=True), AddedToken("<sw>", single_word=True),
        AddedToken("<ab>"), AddedToken("<a<ab>"), AddedToken("<a")])
    tokenizer.post_processor = processors.ByteLevel()
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    return data


def random_texts(added, n=500):
    rng = random.Random(20261121)
    ranges = [(0x20, 0x7F)] * 8 + [(0x30, 0x3A)] * 2 + [(0x80, 0x300), (0x300, 0x370), (0x370, 0x800), (0x800, 0x3000),
              (0x1100, 0x1200), (0xAC00, 0xD7A4), (0x3000, 0xA000), (0xE000, 0x10000), (0x10000, 0x20000), (0x20000, 0x110000)]
    texts = []
    for _ in range(n):
        text = ""
        for _ in range(rng.choice([1, 2, 5, 20, 60])):
            kind = rng.random()
            text += (rng.choice(added) if kind < 0.02 else rng.choice(" \n\r\t\u0085\u00a0\u3000'") if kind < 0.2
                     else rng.choice("sStTrReEvVmMlLdD\u017f") if kind < 0.3 else chr(rng.randrange(*rng.choice(ranges))))
        texts.append(text)
    return texts


def main():
    folder = pathlib.Path(__file__).parent / "golden"
    folder.mkdir(exist_ok=True)
    families = [make for make in (qwen2, llama3, gpt2) if make.__name__ in sys.argv[1:] or len(sys.argv) == 1]
    for make in families:
        data = make()
        tokenizer = Tokenizer.from_str(json.dumps(data))

        def encode(text, parse_special=True, add_special=False):
            tokenizer.encode_special_tokens = not parse_special
            return tokenizer.encode(text, add_special_tokens=add_special).ids

        cases = [{"text": t, "ids": encode(t), "as_text": encode(t, False), "whole": encode(t, True, True)} for t in TORTURE]
        texts = random_texts([t["content"] for t in data["added_tokens"]])
        tokenizer.encode_special_tokens = False
        blocks = []
        for start in range(0, 0x110000, 4096):
            points = [chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000]
            h = 0xCBF29CE484222325
            batch = [text for c in points for text in (c, f"a{c}b", f"'{c}")]
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                h = fnv(encoding.ids, h)
            blocks.append(f"{h:016x}")
        out = {"tokenizer": data, "cases": cases, "random": [[t, f"{fnv(encode(t)):016x}"] for t in texts], "blocks": blocks}
        path = folder / f"tokenizer_{make.__name__}.json"
        path.write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")
        print(path.name, path.stat().st_size, "bytes,", len(cases), "cases")


main()

// The parts of the tokenizer against brute force: merges, added tokens, normal form C, the stream of characters.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "engine/core/files/tokenizer/added_tokens.h"
#include "engine/core/files/tokenizer/bpe.h"
#include "engine/core/files/tokenizer/byte_alphabet.h"
#include "engine/core/files/tokenizer/normalizer.h"
#include "engine/core/files/tokenizer/utf8_stream.h"
#include "engine/core/support/utf8.h"

using kvscope::MergeTable;
using Ids = std::vector<std::int32_t>;

namespace {

/// Random merges over a few symbols, so that they overlap as much as they can.
struct RandomMerges {
  std::map<std::pair<int, int>, MergeTable::Merge> map;
  MergeTable table;
  explicit RandomMerges(unsigned seed) {
    std::mt19937 rng(seed);
    int next = 3;
    for (int rank = 0; rank < 60; ++rank) {
      const int left = static_cast<int>(rng() % next), right = static_cast<int>(rng() % next);
      if (map.contains({left, right})) continue;
      map[{left, right}] = {rank, next};
      table.set(left, right, {rank, next});
      ++next;
    }
  }
  Ids merge(Ids ids) const {
    for (;;) {
      std::size_t best = ids.size();
      int rank = INT32_MAX;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto it = map.find({ids[i], ids[i + 1]});
        if (it != map.end() && it->second.rank < rank) rank = it->second.rank, best = i;
      }
      if (best == ids.size()) return ids;
      ids[best] = map.at({ids[best], ids[best + 1]}).id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }
};

std::string join(const std::vector<kvscope::AddedTokenFinder::Part>& parts) {
  std::string text;
  for (const auto& part : parts)
    text +=
        (part.id < 0 ? "[" : "<" + std::to_string(part.id) + ":") + std::string(part.text) + (part.id < 0 ? "]" : ">");
  return text;
}

}  // namespace

TEST_CASE("Merging by scan and by heap gives what repeated search for the lowest rank gives") {
  const unsigned seed = GENERATE(range(1u, 41u));
  const RandomMerges merges(seed);
  std::mt19937 rng(seed * 977);
  for (int round = 0; round < 20; ++round) {
    Ids word(1 + rng() % 150);
    for (auto& id : word) id = static_cast<std::int32_t>(rng() % 3);
    const Ids wanted = merges.merge(word);
    Ids scan = word, heap = word;
    scan.resize(kvscope::merge_by_scan(merges.table, scan));
    heap.resize(kvscope::merge_by_heap(merges.table, heap));
    CHECK(scan == wanted);
    CHECK(heap == wanted);
  }
}

TEST_CASE("The merge table finds every pair it was given and no other") {
  std::mt19937 rng(7);
  MergeTable table;
  std::map<std::pair<int, int>, int> wanted;
  for (int i = 0; i < 20000; ++i) {
    const int left = static_cast<int>(rng() % 300), right = static_cast<int>(rng() % 300);
    wanted[{left, right}] = i;  // again: the last one wins
    table.set(left, right, {i, i + 1});
  }
  for (int left = 0; left < 300; ++left) {
    for (int right = 0; right < 300; ++right) {
      const auto it = wanted.find({left, right});
      const MergeTable::Merge found = table.find(left, right);
      if (found.rank != (it == wanted.end() ? -1 : it->second)) FAIL("pair " << left << ", " << right);
    }
  }
}

TEST_CASE("Every byte has a character of its own and comes back from it") {
  std::string token, bytes;
  std::set<char32_t> chars;
  for (int b = 0; b < 256; ++b) {
    const char32_t c = kvscope::byte_char(static_cast<unsigned char>(b));
    chars.insert(c);
    kvscope::append_utf8(token, c);
    bytes += static_cast<char>(b);
  }
  CHECK(chars.size() == 256);
  CHECK(kvscope::byte_char('A') == 'A');
  CHECK(kvscope::byte_char(' ') == 0x120);  // the G with a dot that starts words
  CHECK(kvscope::byte_char('\n') == 0x10A);
  CHECK(kvscope::bytes_of_token(token) == bytes);
  CHECK_FALSE(kvscope::bytes_of_token("a b"));
  CHECK_FALSE(kvscope::bytes_of_token("\u4e00"));
}

TEST_CASE("Added tokens are found from the left, the longest first, with their white space") {
  const auto finder = [](std::vector<kvscope::AddedToken> tokens) {
    std::vector<std::string> contents;
    for (const auto& t : tokens) contents.push_back(t.content);
    return kvscope::AddedTokenFinder(std::move(tokens), std::move(contents));
  };
  const auto split = [](const kvscope::AddedTokenFinder& f, std::string_view text,
                        kvscope::ReadTokens read = kvscope::ReadTokens::all) {
    std::vector<kvscope::AddedTokenFinder::Part> parts;
    f.split(text, read, parts);
    return join(parts);
  };
  const auto nested =
      finder({{.id = 1, .content = "<a"}, {.id = 2, .content = "<a<ab>"}, {.id = 3, .content = "<ab>"}});
  CHECK(split(nested, "<a<ab>") == "<2:<a<ab>>");
  CHECK(split(nested, "<a<a<ab>") == "<1:<a><2:<a<ab>>");
  CHECK(split(nested, "<a<ab") == "<1:<a><1:<a>[b]");
  CHECK(split(nested, "x<ab>y<") == "[x]<3:<ab>>[y<]");
  CHECK(split(nested, "") == "");
  const auto strips = finder({{.id = 1, .content = "L", .lstrip = true}, {.id = 2, .content = "R", .rstrip = true}});
  CHECK(split(strips, "a \n L b") == "[a]<1: \n L>[ b]");
  CHECK(split(strips, "a R\u3000\u0085b") == "[a ]<2:R\u3000\u0085>[b]");
  CHECK(split(strips, "R  L") == "<2:R  ><1:L>");  // white space is taken once
  const auto word = finder({{.id = 1, .content = "W", .single_word = true}});
  CHECK(split(word, "aW W Wb \u00e9W -W-") == "[aW ]<1:W>[ Wb \u00e9W -]<1:W>[-]");
  const auto special = finder({{.id = 1, .content = "<s>", .special = true}, {.id = 2, .content = "<t>"}});
  CHECK(split(special, "<s><t>", kvscope::ReadTokens::not_special) == "[<s>]<2:<t>>");
  CHECK(split(special, "<s><t>", kvscope::ReadTokens::all) == "<1:<s>><2:<t>>");
  const auto typed = finder(
      {{.id = 1, .content = "[INST]", .special = true}, {.id = 2, .content = "<t>"}, {.id = 3, .content = "kv"}});
  CHECK(split(typed, "[INST]<t>kv", kvscope::ReadTokens::not_markup) == "[[INST]<t>]<3:kv>");
}

TEST_CASE("Normal form C composes, orders marks and leaves what is not UTF-8") {
  using kvscope::to_nfc;
  CHECK(to_nfc("e\u0301") == "\u00e9");
  CHECK(to_nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(to_nfc("e\u0301\u0323") == "\u1eb9\u0301");
  CHECK(to_nfc("\u212b\u2126") == "\u00c5\u03a9");
  CHECK(to_nfc("\u1112\u1161\u11ab") == "\ud55c");
  CHECK(to_nfc("\uac00\u11a8") == "\uac01");
  CHECK(to_nfc("\uac00\u11a7") == "\uac00\u11a7");  // U+11A7 is no trailing consonant
  CHECK(to_nfc("\u0958") == "\u0915\u093c");        // never composed
  CHECK(to_nfc("a\u0327b\u0301 plain \u00e9") == "a\u0327b\u0301 plain \u00e9");
  CHECK(to_nfc("e\xff\u0301"
               "e\u0301\xc3") == "e\xff\u0301\u00e9\xc3");
  CHECK(to_nfc("\u0301\u0323") == "\u0323\u0301");
  CHECK(to_nfc("") == "");
}

TEST_CASE("Normal form C is its own normal form, and texts said to be in it do not change") {
  std::mt19937 rng(3);
  const std::vector<std::pair<char32_t, char32_t>> ranges{{0x41, 0x5B},     {0xC0, 0x250},    {0x300, 0x370},
                                                          {0x900, 0xA00},   {0x1100, 0x1200}, {0x1E00, 0x2000},
                                                          {0xAC00, 0xD7A4}, {0xF900, 0xFB50}, {0x11000, 0x11200}};
  int said = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (unsigned n = 1 + rng() % 8; n > 0; --n) {
      const auto [first, last] = ranges[rng() % ranges.size()];
      kvscope::append_utf8(text, first + static_cast<char32_t>(rng() % (last - first)));
    }
    const std::string once = kvscope::to_nfc(text);
    if (kvscope::to_nfc(once) != once) FAIL("not stable");
    if (kvscope::is_surely_nfc(text)) {
      ++said;
      if (once != text) FAIL("said to be in normal form and changed");
    }
  }
  CHECK(said > 500);
}

TEST_CASE("A million marks are ordered in less than quadratic time") {
  std::string text = "e", wanted_below, wanted_above;
  for (int i = 0; i < 300'000; ++i) {
    text += "\u0301\u0323";
    wanted_below += "\u0323";
    wanted_above += "\u0301";
  }
  CHECK(kvscope::to_nfc(text) == "\u1eb9" + wanted_below.substr(2) + wanted_above);
}

TEST_CASE("A stream of bytes gives whole characters at once and the same text for any cuts") {
  struct Case {
    std::string bytes, text;
  };
  // As Python's decode("utf-8", errors="replace") has it.
  const auto c = GENERATE(values<Case>({
      {"plain", "plain"},
      {"aé缓🙂z", "aé缓🙂z"},
      {"\x80", "\uFFFD"},
      {"\xC0\x80", "\uFFFD\uFFFD"},
      {"\xE2\x82", "\uFFFD"},
      {"\xE2\x82\x41", "\uFFFDA"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x99", "\uFFFD"},
      {"\xF0\x9F\x99x", "\uFFFDx"},
      {"\xF0\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF5\x80\xFF", "\uFFFD\uFFFD\uFFFD"},
      {"\xE2\xE2\x82\xAC", "\uFFFD\u20AC"},
      {"\xC3\xC3\xA9", "\uFFFD\u00e9"},
  }));
  const std::size_t n = c.bytes.size();
  for (std::size_t first = 0; first <= n; ++first) {
    for (std::size_t second = first; second <= n; ++second) {
      kvscope::Utf8Stream stream;
      std::string text = stream.push(std::string_view(c.bytes).substr(0, first));
      text += stream.push(std::string_view(c.bytes).substr(first, second - first));
      text += stream.push(std::string_view(c.bytes).substr(second));
      text += stream.finish();
      CHECK(text == c.text);
      CHECK(stream.pending() == 0);
    }
  }
}

TEST_CASE("A character appears with its last byte, not before") {
  kvscope::Utf8Stream stream;
  CHECK(stream.push("a\xF0\x9F") == "a");
  CHECK(stream.pending() == 2);
  CHECK(stream.push("\x99") == "");
  CHECK(stream.push("\x82"
                    "b") == "🙂b");
  CHECK(stream.finish() == "");
}

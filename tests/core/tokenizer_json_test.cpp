// tokenizer.json as strangers write it: what is refused and by which key.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/byte_alphabet.h"
#include "engine/core/files/tokenizer/pre_tokenizer.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/utf8.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using kvscope::Tokenizer;
using kvscope::test::error_of;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

/// Id of a byte in the tokenizers below.
std::int32_t id_of(char c) { return static_cast<unsigned char>(c); }

/// All bytes (id = byte), "ab" 256, "abc" 257; GPT-2's pattern.
json good() {
  json vocab = json::object();
  for (int b = 0; b < 256; ++b) {
    std::string token;
    kvscope::append_utf8(token, kvscope::byte_char(static_cast<unsigned char>(b)));
    vocab[token] = b;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

Tokenizer load(const std::string& text) {
  const kvscope::test::TempFolder folder;
  folder.write("tokenizer.json", text);
  return Tokenizer::load(folder.path());
}
Tokenizer load(const json& file) { return load(file.dump()); }

std::string load_error(const std::string& text) {
  const std::string line = error_of([&] { load(text); });
  const std::size_t at = line.find("tokenizer.json: ");
  return at == line.npos ? line : line.substr(at + 16);
}

/// `good()` with the value at a JSON pointer replaced.
std::string with(const char* pointer, const json& value) {
  json file = good();
  file[json::json_pointer(pointer)] = value;
  return load_error(file.dump());
}

json added(const std::string& content, int id, bool special = true) {
  return {{"content", content}, {"id", id}, {"special", special}};
}

}  // namespace

TEST_CASE("Merges are read as lines and as pairs, and the last of a pair said twice wins") {
  const json merges = json::parse(GENERATE(as<std::string>{}, R"(["a b", "ab c"])", R"([["a", "b"], ["ab", "c"]])",
                                           R"(["#version: 0.2", "a b", "ab c"])", R"(["a b", "ab c", "a b"])"));
  json file = good();
  file["model"]["merges"] = merges;
  CHECK(load(file).encode("abcab") == Ids{257, 256});
  file["model"]["merges"] = {"b c", "a b", "b c"};
  file["model"]["vocab"]["bc"] = 258;
  CHECK(load(file).encode("abc") == Ids{256, id_of('c')});
}

TEST_CASE("ignore_merges takes a whole word from the vocabulary") {
  json file = good();
  file["model"]["vocab"]["cab"] = 258;
  CHECK(load(file).encode("cab") == Ids{id_of('c'), 256});
  file["model"]["ignore_merges"] = true;
  CHECK(load(file).encode("cab") == Ids{258});
}

TEST_CASE("A malformed or unsupported tokenizer is refused by the key at fault") {
  struct Case {
    const char* pointer;
    json value;
    const char* line;
  };
  const auto c = GENERATE(values<Case>({
      {"/version", "2.0", "version: \"2.0\"; expected \"1.0\""},
      {"/extra", 1, "extra: unknown key"},
      {"/model", nullptr, "model: null; expected an object"},
      {"/model/type", "Unigram", "model.type: \"Unigram\" is not supported; expected \"BPE\""},
      {"/model/type", "WordPiece", "model.type: \"WordPiece\" is not supported"},
      {"/model/dropout", 0.5, "model.dropout: not 0"},
      {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix: \"##\" is not supported"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix: \"</w>\" is not supported"},
      {"/model/ignore_merges", 1, "model.ignore_merges: 1; expected true or false"},
      {"/model/vocab", json::array(), "model.vocab: missing or not an object"},
      {"/model/vocab", {{"a", 0}}, "model.vocab: no token for byte 0; expected all 256 bytes"},
      {"/model/vocab/ab", -1, "model.vocab.ab: -1; expected an id from 0 to"},
      {"/model/vocab/ab", 1.5, "model.vocab.ab: 1.5; expected an id"},
      {"/model/vocab/ab", 4294967295u, "model.vocab.ab: 4294967295; expected an id"},
      {"/model/vocab/ab", "256", "model.vocab.ab: \"256\"; expected an id"},
      {"/model/vocab/ab", nullptr, "model.vocab.ab: null; expected an id"},
      {"/model/vocab/ab", {1}, "model.vocab.ab: an array; expected an id"},
      {"/model/vocab/ab", 257, "model.vocab.abc: id 257 twice; expected every id once"},
      {"/model/merges", nullptr, "model.merges: missing or not a list"},
      {"/model/merges", "a b", "model.merges: missing or not a list"},
      {"/model/merges/1", 7, "model.merges[1]: 7; expected \"a b\" or [\"a\", \"b\"]"},
      {"/model/merges/1", "abc", "model.merges[1]: \"abc\"; expected \"a b\""},
      {"/model/merges/1", "a b c", "model.merges[1]: \"a b c\"; expected \"a b\""},
      {"/model/merges/1", " b", "model.merges[1]: an empty part"},
      {"/model/merges/1", {"a", "b"}, "model.merges[1]: lines and pairs mixed"},
      {"/model/merges/1", {"a", "b", "c"}, "model.merges[1]: \"c\"; expected"},
      {"/model/merges/1", json::array({"a"}), "model.merges[1]: 1 parts; expected"},
      {"/model/merges/1", {"a", {"b"}}, "model.merges[1]: an array; expected"},
      {"/model/merges/1", "ab zz", "model.merges[1]: \"zz\" is not in the vocabulary"},
      {"/model/merges/1", "b c", "model.merges[1]: \"bc\" is not in the vocabulary"},
      {"/normalizer", {{"type", "NFKC"}}, "normalizer.type: \"NFKC\" is not supported; expected \"NFC\" or null"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}},
       "normalizer[0].type: \"Lowercase\" is not supported"},
      {"/normalizer", {{"type", "Sequence"}}, "normalizer.normalizers: missing or not a list"},
      {"/pre_tokenizer", nullptr, "pre_tokenizer: missing"},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "pre_tokenizer.type: \"Whitespace\" is not supported"},
      {"/pre_tokenizer", {{"type", "Metaspace"}}, "pre_tokenizer.replacement: missing"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "_"}},
       "pre_tokenizer.replacement: \"_\" is not supported; expected \"\u2581\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "last"}},
       "pre_tokenizer.prepend_scheme: \"last\"; expected \"first\", \"always\" or \"never\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", false}},
       "pre_tokenizer.add_prefix_space: false with a prepend_scheme of \"always\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}},
       "decoder.type: \"ByteLevel\" is not supported; expected \"Sequence\" here"},
      {"/normalizer",
       {{"type", "Prepend"}, {"prepend", "\u2581"}},
       "normalizer: Prepend or Replace together with a pre_token"},
      {"/normalizer", {{"type", "Prepend"}, {"prepend", "x"}}, "normalizer.prepend: \"x\" is not supported"},
      {"/normalizer", {{"type", "Replace"}, {"content", "\u2581"}}, "normalizer.pattern: missing"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", " "}}}, {"content", "\u2581"}},
       "normalizer.pattern.String: missing"},
      {"/model/byte_fallback", "yes", "model.byte_fallback: \"yes\"; expected true or false"},
      {"/model/fuse_unk", 1, "model.fuse_unk: 1; expected true or false"},
      {"/model/unk_token", 5, "model.unk_token: 5; expected text"},
      {"/pre_tokenizer/use_regex", false, "pre_tokenizer.use_regex: false without a Split"},
      {"/decoder", {{"type", "WordPiece"}}, "decoder.type: \"WordPiece\" is not supported"},
      {"/post_processor", {{"type", "BertProcessing"}}, "post_processor.type: \"BertProcessing\" is not supported"},
      {"/added_tokens", 7, "added_tokens: not a list"},
      {"/added_tokens", {7}, "added_tokens[0]: 7; expected an object"},
      {"/added_tokens", {{{"content", "<s>"}}}, "added_tokens[0].id: missing"},
      {"/added_tokens", {{{"id", 300}}}, "added_tokens[0].content: missing"},
      {"/added_tokens", {added("", 300)}, "added_tokens[0].content: empty"},
      {"/added_tokens", {added("<s>", -1)}, "added_tokens[0].id: -1; expected an integer from 0"},
      {"/added_tokens", {added("<s>", 1 << 22)}, "added_tokens[0].id: 4194304; expected an integer from 0"},
  }));
  CHECK_THAT(with(c.pointer, c.value), Catch::StartsWith(c.line));
}

TEST_CASE("Added tokens are numbered on from the vocabulary, and a file that says otherwise gives a warning") {
  struct Case {
    json added;
    Ids ids;  // of "<s><t>ab"
    const char* warning;
  };
  const auto c = GENERATE(values<Case>({
      {{added("<s>", 258), added("<t>", 259)}, {258, 259, 256}, ""},
      {{added("<s>", 258), added("<s>", 258), added("<t>", 259)}, {258, 259, 256}, ""},
      {{added("<s>", 520), added("<t>", 521)},
       {258, 259, 256},
       "added_tokens[0]: \"<s>\" has id 520 in the file and 258 here, and 1 more ids differ"},
      {{added("<t>", 259), added("<s>", 258)},
       {259, 258, 256},
       "added_tokens[0]: \"<t>\" has id 259 in the file and 258"},
      {{added("<s>", 65), added("<t>", 259)},
       {258, 259, 256},
       "added_tokens[0]: \"<s>\" has id 65 in the file and 258"},
      {{added("ab", 300), added("<s>", 258), added("<t>", 259)},
       {258, 259, 256},
       "added_tokens[0]: \"ab\" has id 300 in the file and 256 here"},
  }));
  json file = good();
  file["added_tokens"] = c.added;
  const Tokenizer tokenizer = load(file);
  CHECK(tokenizer.encode("<s><t>ab") == c.ids);
  if (*c.warning == '\0') {
    CHECK(tokenizer.warnings().empty());
  } else {
    REQUIRE(tokenizer.warnings().size() == 1);
    CHECK_THAT(tokenizer.warnings()[0], Catch::Contains(std::string("tokenizer.json: ") + c.warning));
  }
}

TEST_CASE("A split pattern that is not known is refused and shown") {
  const auto sequence = [](const json& split, const json& level) {
    return json{{"type", "Sequence"}, {"pretokenizers", {split, level}}};
  };
  const json level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto split = [](const std::string& regex, const char* behavior = "Isolated") {
    return json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", false}};
  };
  const std::string qwen2(kvscope::pattern_text(kvscope::SplitPattern::qwen2));
  const auto refused = [&](const json& pre) { return with("/pre_tokenizer", pre); };
  CHECK_THAT(refused(sequence(split("(a+)+b"), level)),
             Catch::StartsWith("pre_tokenizer[0].pattern.Regex: \"(a+)+b\" is not supported"));
  CHECK_THAT(refused(sequence(split(qwen2, "Removed"), level)),
             Catch::StartsWith("pre_tokenizer[0].behavior: \"Removed\" is not supported"));
  CHECK_THAT(refused(sequence({{"type", "Split"}}, level)), Catch::StartsWith("pre_tokenizer[0].pattern: missing"));
  CHECK_THAT(refused(sequence({{"type", "Punctuation"}}, level)),
             Catch::StartsWith("pre_tokenizer[0].type: \"Punctuation\" is not supported"));
  CHECK_THAT(refused(sequence({{"type", "Digits"}}, level)),
             Catch::StartsWith("pre_tokenizer.use_regex: false without a Split"));
  CHECK_THAT(refused(sequence({{"type", "Digits"}, {"individual_digits", 1}}, level)),
             Catch::StartsWith("pre_tokenizer[0].individual_digits: 1; expected true or false"));
  CHECK_THAT(refused(sequence({{"type", "Digits"}}, {{"type", "ByteLevel"}, {"add_prefix_space", true}})),
             Catch::StartsWith("pre_tokenizer.add_prefix_space: true after Digits"));
  CHECK_THAT(refused(sequence(split(qwen2), {{"type", "ByteLevel"}, {"use_regex", true}})),
             Catch::StartsWith("pre_tokenizer.use_regex: true after a Split"));
  CHECK_THAT(refused(sequence(split(qwen2), {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", true}})),
             Catch::StartsWith("pre_tokenizer.add_prefix_space: true after a Split"));
  CHECK_THAT(refused({{"type", "Sequence"}, {"pretokenizers", {level, level, level}}}),
             Catch::StartsWith("pre_tokenizer: 3 steps"));
  CHECK(refused(sequence(split(qwen2), level)) == "no error");
}

TEST_CASE("A byte without a token is refused unless an unknown token stands for it") {
  json file = good();
  file["model"]["vocab"].erase("\u0120");
  CHECK_THAT(load_error(file.dump()),
             Catch::StartsWith("model.vocab: no token for byte 32; expected all 256 bytes, or"));
  file["model"]["unk_token"] = "<unk>";
  CHECK_THAT(load_error(file.dump()), Catch::StartsWith("model.unk_token: \"<unk>\" is not in the vocabulary"));
  file["model"]["vocab"]["<unk>"] = 300;
  CHECK(load(file).encode("a  b") == Ids{id_of('a'), 300, 300, id_of('b')});
  file["model"]["byte_fallback"] = true;
  CHECK_THAT(load_error(file.dump()),
             Catch::StartsWith("model.byte_fallback: true, but some of ByteLevel's tokens are missing"));
}

TEST_CASE("A decoder of characters that prints otherwise is refused") {
  const json replace{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
      bytes{{"type", "ByteFallback"}}, fuse{{"type", "Fuse"}},
      strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  const auto refused = [](const json& decoders) {
    json file = good();
    file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
    file["decoder"] = decoders.is_null() ? json() : json{{"type", "Sequence"}, {"decoders", decoders}};
    return load_error(file.dump());
  };
  CHECK_THAT(refused(nullptr), Catch::StartsWith("decoder: missing; expected a Sequence of Replace"));
  CHECK_THAT(refused({replace, bytes}), Catch::StartsWith("decoder: 2 steps; expected a Sequence of Replace"));
  CHECK_THAT(refused({replace, fuse, bytes}), Catch::StartsWith("decoder[1].type: \"Fuse\" is not supported"));
  json twice = strip;
  twice["start"] = 2;
  CHECK_THAT(refused({replace, bytes, fuse, twice}), Catch::StartsWith("decoder[3].start: 2; expected"));
  CHECK_THAT(refused({replace, bytes, fuse, strip}), Catch::StartsWith("model.vocab: no token for byte 0"));
}

TEST_CASE("A Split at blanks is read where the normalizer leaves none, and refused elsewhere") {
  json file = good(), split{{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}};
  const auto refused = [&] { return load_error((file["pre_tokenizer"] = split, file.dump())); };
  CHECK_THAT(refused(), Catch::StartsWith("pre_tokenizer.type: \"Split\" is not supported"));
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  CHECK_THAT(refused(), Catch::StartsWith("decoder.type: \"ByteLevel\" is not supported; expected \"Sequence\""));
  split["invert"] = true;
  CHECK_THAT(refused(), Catch::StartsWith("pre_tokenizer.invert: true is not supported"));
  split["invert"] = false, split["pattern"]["String"] = "\u2581";
  CHECK_THAT(refused(), Catch::StartsWith("pre_tokenizer.type: \"Split\" is not supported"));
}

TEST_CASE("A template that names no token, or an id past the vocabulary, is refused") {
  const auto refused = [](const json& single, const json& tokens) {
    return with("/post_processor", {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", tokens}});
  };
  const json text{{"Sequence", {{"id", "A"}}}}, start{{"SpecialToken", {{"id", "<s>"}}}};
  CHECK_THAT(refused({start, text}, json::object()), Catch::StartsWith("post_processor.special_tokens.<s>: missing"));
  CHECK_THAT(refused({start, text}, {{"<s>", {{"ids", {999}}}}}),
             Catch::StartsWith("post_processor.special_tokens: id 999; expected below 258"));
  CHECK_THAT(refused({start, text}, {{"<s>", {{"ids", {-1}}}}}),
             Catch::Contains("ids: -1; expected an integer from 0"));
  CHECK_THAT(refused(json::array({start}), {{"<s>", {{"ids", {1}}}}}),
             Catch::StartsWith("post_processor.single: no entry for the text"));
  CHECK_THAT(refused({text, text}, json::object()), Catch::StartsWith("post_processor.single[1]: neither"));
  CHECK(refused({start, text}, {{"<s>", {{"ids", {1}}}}}) == "no error");
}

TEST_CASE("JSON faults in a tokenizer are refused with their place") {
  CHECK_THAT(load_error("[" + std::string(100000, '[')), Catch::Contains("deeper than 32"));
  CHECK_THAT(load_error(R"({"model":{"vocab":{"a":1,"a":2}}})"), Catch::Contains("key \"a\" twice"));
  CHECK_THAT(load_error("<!DOCTYPE html>"), Catch::Contains("HTML page, not a tokenizer"));
  CHECK_THAT(load_error("[]"), Catch::Contains("an array; expected an object"));
  CHECK_THAT(load_error("{}"), Catch::StartsWith("model: missing"));
  std::string cut = good().dump();
  cut.resize(cut.size() / 2);
  CHECK_THAT(load_error(cut), Catch::Contains("line 1, column"));
}

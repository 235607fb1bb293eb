// Searching tokens, against a plain look at every one of them.
#include "engine/core/study/measure/token_query.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

RunRecord run_of_pieces(const std::vector<std::string>& pieces) {
  RunRecord run = random_run(3, {.prompt_len = static_cast<int>(pieces.size()), .n_new = 0});
  run.pieces = {};
  for (const std::string& piece : pieces) run.pieces.push_back(piece);
  return run;
}

std::vector<std::int32_t> found(const RunRecord& run, std::string_view text, std::int32_t q = 100) {
  return TokenQuery::parse(text).find(run, 1, 2, q).tokens;
}

std::vector<std::int32_t> where(const RunRecord& run, const std::function<bool(std::int32_t)>& matches) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t t = 0; t < run.n_tokens(); ++t) {
    if (matches(t)) tokens.push_back(t);
  }
  return tokens;
}

std::string refusal(std::string_view text) {
  try {
    TokenQuery::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE(
    "Text is found over the borders of tokens, in any case unless a letter is upper, and goes to its first token") {
  const RunRecord run = run_of_pieces({"The", " an", "swer", " is", " the", " Answer", "."});
  const TokenHits hits = TokenQuery::parse("answer").find(run, 0, 0, 6);
  CHECK(hits.tokens == std::vector<std::int32_t>{1, 2, 5});
  CHECK(hits.starts == std::vector<std::int32_t>{1, 5});
  CHECK(found(run, "Answer", 6) == std::vector<std::int32_t>{5});
  CHECK(found(run, "is the", 6) == std::vector<std::int32_t>{3, 4});
  CHECK(found(run, "\" is the \"", 6) == std::vector<std::int32_t>{3, 4, 5});
  CHECK(found(run, "nothing of the kind", 6).empty());
  CHECK(found(run, "answer & position>2", 6) == std::vector<std::int32_t>{5});
}

TEST_CASE("Words of state find the tokens that are in it for the selected head at the query") {
  const RunRecord run = random_run(3);
  const RetentionGeometry g = run.geometry();
  const std::int32_t q = GENERATE(0, 90, 179);
  const auto state = [&](std::int32_t t) {
    return token_state(run, g, q, t, run.evict_at.row(1, 2)[static_cast<std::size_t>(t)]);
  };
  const std::pair<const char*, TokenState> words[] = {{"sink", TokenState::sink},
                                                      {"window", TokenState::window},
                                                      {"kept", TokenState::kept},
                                                      {"evicted", TokenState::evicted},
                                                      {"future", TokenState::future}};
  for (const auto& [word, wanted] : words) {
    INFO(word);
    CHECK(found(run, word, q) == where(run, [&](std::int32_t t) { return state(t) == wanted; }));
    CHECK(found(run, std::string("!") + word, q) == where(run, [&](std::int32_t t) { return state(t) != wanted; }));
  }
  CHECK(found(run, "cached", q) ==
        where(run, [&](std::int32_t t) { return state(t) != TokenState::future && state(t) != TokenState::evicted; }));
  CHECK(found(run, "unread", q).empty());
}

TEST_CASE("The oracle's choice, numbers and ids are found, and terms are joined by and") {
  const RunRecord run = random_run(3);
  const std::int32_t q = 150;
  const OracleSet oracle(run, 1, 2, q);
  const auto& evict_at = run.evict_at.row(1, 2);
  const auto& scores = run.scores.row(1, 2);
  const auto missed = [&](std::int32_t t) { return oracle.judges(t) && oracle.keeps(t) && evict_at[t] <= q; };
  const auto expected = where(run, missed);
  REQUIRE(expected.size() > 2);
  CHECK(found(run, "missed", q) == expected);
  CHECK(found(run, "evicted & oracle:kept", q) == expected);
  CHECK(found(run, "evicted & oracle:kept & score>0", q) ==
        where(run, [&](std::int32_t t) { return missed(t) && scores[t] > 0; }));
  CHECK(found(run, "oracle:dropped", q) ==
        where(run, [&](std::int32_t t) { return oracle.judges(t) && !oracle.keeps(t); }));
  CHECK(found(run, "#" + std::to_string(run.ids[7]), q) ==
        where(run, [&](std::int32_t t) { return run.ids[t] == run.ids[7]; }));
  CHECK(found(run, "position >= 4 & position<6") == std::vector<std::int32_t>{4, 5});
  CHECK(found(run, "age=3", q) == std::vector<std::int32_t>{q - 3});
  CHECK(found(run, "from:prompt").size() == 120);
  CHECK(found(run, "heads>=2", q) == where(run, [&](std::int32_t t) {
          int n = 0;
          for (int h = 0; h < 3; ++h) n += visible(q, t, run.evict_at.row(1, h)[static_cast<std::size_t>(t)]);
          return n >= 2;
        }));
}

TEST_CASE("A regular expression is looked for in each token's text, beside other terms, and a path is a text") {
  const RunRecord run = run_of_pieces({" value", " Valve", " vale", "42", "a/b", "a&b", " 7 ", "/usr", "/bin"});
  CHECK(found(run, "/val.e/", 8) == std::vector<std::int32_t>{0, 1});
  CHECK(found(run, "/Val.e/", 8) == std::vector<std::int32_t>{1});
  CHECK(found(run, "/^\\s*\\d+\\s*$/", 8) == std::vector<std::int32_t>{3, 6});
  CHECK(found(run, "/\\S{6}/", 8).empty());  // \S is no upper letter, and one token at a time
  CHECK(found(run, "/val.e/ & position>0", 8) == std::vector<std::int32_t>{1});
  CHECK(found(run, "position>0 & !/val/", 8) == std::vector<std::int32_t>{3, 4, 5, 6, 7, 8});
  CHECK(found(run, "/a&b/", 8) == std::vector<std::int32_t>{5});
  CHECK(found(run, "/a\\/b/ & /a/", 8) == std::vector<std::int32_t>{4});
  CHECK(found(run, "/usr/bin", 8) == std::vector<std::int32_t>{7, 8});
  CHECK(found(run, "\"/val.e/\"", 8).empty());
  CHECK_FALSE(TokenQuery::parse("/val.e/ & class:num").depends_on_query());
}

TEST_CASE("Tokens are found by what their text is: numbers, words, blanks, signs, ends of lines") {
  const RunRecord run =
      run_of_pieces({" the", "42", ".\n", "  ", "\u00e9t\u00e9", "a1", "\xe4", " \u201c", "\n\n", "\u0661", ""});
  const auto of = [&](const char* name) { return found(run, std::string("class:") + name, 10); };
  CHECK(of("word") == std::vector<std::int32_t>{0, 4, 9});
  CHECK(of("num") == std::vector<std::int32_t>{1});
  CHECK(of("space") == std::vector<std::int32_t>{3, 8});
  CHECK(of("punct") == std::vector<std::int32_t>{2, 7});
  CHECK(of("newline") == std::vector<std::int32_t>{2, 8});
  CHECK(found(run, "!class:word & class:newline", 10) == std::vector<std::int32_t>{2, 8});
}

TEST_CASE("A pattern that would take for ever takes no time, and one that is none is refused in one line") {
  const RunRecord run = run_of_pieces({std::string(4000, 'a'), "b"});
  CHECK(found(run, "/^(a*)*$/", 1) == std::vector<std::int32_t>{0});
  CHECK(found(run, "/(a|a)*(a|a)*(aa?)*c/", 1).empty());
  CHECK(refusal("/" + std::string(200, 'a') + "/").empty());
  CHECK(refusal("/" + std::string(201, 'a') + "/").find("200 bytes") != std::string::npos);
  CHECK(refusal("/(((a{50}){50}){50}){50}/").find("fewer repetitions") != std::string::npos);
  CHECK(refusal("class:noun").find("one of num, word, space, punct, newline") != std::string::npos);
  for (const char* text : {"/(/", "/[z-a]/", "/a{2,1}/", "/*/", "/(a)\\1/"}) {
    INFO(text);
    CHECK(refusal(text).find("a regular expression") != std::string::npos);
    CHECK(refusal(text).find('\n') == std::string::npos);
  }
}

TEST_CASE("A search that makes no sense is refused in one line that says what does") {
  CHECK(refusal("score>abc").find("a number after \"score>\"") != std::string::npos);
  CHECK(refusal("speed>2").find("one of score, mass") != std::string::npos);
  CHECK(refusal("oracle:left").find("oracle:kept or oracle:dropped") != std::string::npos);
  CHECK(refusal("#12a").find("a token id") != std::string::npos);
  CHECK_FALSE(refusal("kept &").empty());
  CHECK_FALSE(refusal("& kept").empty());
  CHECK_FALSE(refusal("!").empty());
  CHECK_FALSE(refusal("\"open").empty());
  for (const char* text : {"score>abc", "speed>2", "oracle:left", "kept &"})
    CHECK(refusal(text).find('\n') == std::string::npos);
  CHECK(refusal("\"score>abc\"").empty());
  CHECK(TokenQuery::parse("  ").empty());
  CHECK_FALSE(TokenQuery::parse("the & from:prompt").depends_on_query());
  CHECK(TokenQuery::parse("the & kept").depends_on_query());
}

TEST_CASE("What a run has no data for is said, not silently found nowhere") {
  const RunRecord bare = random_run(5, {.policy = "streaming:sinks=4,window=60", .scorer = false, .oracle = false});
  CHECK_THROWS_WITH(found(bare, "oracle:kept"), Catch::Contains("no oracle"));
  CHECK_THROWS_WITH(found(bare, "score>1"), Catch::Contains("score"));
  CHECK(found(bare, "evicted").size() > 10);
}

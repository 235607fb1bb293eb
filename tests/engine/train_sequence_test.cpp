// Task sequences: what is asked can be answered from what was said, and the same seed says the same.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/tasks/palindrome.h"
#include "engine/jobs/tasks/repeat_sequences.h"
#include "engine/jobs/tasks/sequence.h"
#include "engine/jobs/train/data_loader.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

const std::filesystem::path kModel = test::in_source("samples/models/kvscope-tiny");
const std::filesystem::path kText = test::in_source("samples/prompts/heldout.txt");

bool has_sample() { return std::filesystem::exists(kModel / "tokenizer.json"); }

/// Tokens of the held-out text and the words of the tasks, by the sample model's tokenizer.
struct Material {
  Tokenizer tokenizer = Tokenizer::load(kModel);
  std::vector<std::int32_t> tokens = tokenizer.encode(read_file(kText, 1 << 24).substr(0, 60000), false);
  TaskLexicon words = TaskLexicon::make([this](std::string_view text) { return tokenizer.encode(text, false); });
};

std::string text_of(const Tokenizer& tokenizer, const TaskSequence& sequence, int begin, int end) {
  return tokenizer.decode({sequence.ids.begin() + begin, sequence.ids.begin() + end});
}

/// The answer to the question that ends at `begin`, from the text before it.
std::string answer_from(const std::string& before, TaskKind kind) {
  if (kind == TaskKind::reversal) {
    const auto start = before.rfind("\nNumbers:") + 9;
    std::istringstream list(before.substr(start, before.find('.', start) - start));
    std::string number, reversed;
    while (list >> number) reversed = " " + number + reversed;
    return reversed + ".\n";
  }
  const auto start = before.rfind("code of the ") + 12;
  const std::string thing = before.substr(start, before.rfind('?') - start);
  const std::string statement = "\nThe code of the " + thing + " is";
  const auto value = before.find(statement) + statement.size();
  return before.substr(value, before.find('\n', value) + 1 - value);
}

}  // namespace

TEST_CASE("the answer of every question follows from the text before it, and stands in its span") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  const SequenceGenerator generator(material.tokens, material.words, {}, 17);
  std::map<TaskKind, int> seen;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const TaskSequence sequence = generator.make(i);
    REQUIRE(sequence.ids.size() == 2049);
    REQUIRE(sequence.roles.size() == 2049);
    for (const AnswerSpan& span : sequence.spans) {
      const std::string before = text_of(material.tokenizer, sequence, 0, span.begin);
      CHECK(text_of(material.tokenizer, sequence, span.begin, span.end) == answer_from(before, span.kind));
      for (int t = span.begin; t < span.end; ++t) CHECK(sequence.roles[t] == TokenRole::answer);
      CHECK(sequence.roles[span.begin - 1] == TokenRole::statement);
      ++seen[span.kind];
    }
  }
  CHECK(seen[TaskKind::reversal] == 20);
  CHECK(seen[TaskKind::fact_recall] > 80);
}

TEST_CASE("a question and its answer are cut into tokens as the tokenizer cuts the whole line") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  const SequenceGenerator generator(material.tokens, material.words, {}, 18);
  for (const AnswerSpan& span : generator.make(3).spans) {
    const TaskSequence sequence = generator.make(3);
    const std::string text = text_of(material.tokenizer, sequence, 0, span.end);
    const std::string line = text.substr(text.rfind(span.kind == TaskKind::reversal ? "\nReversed" : "\nWhat"));
    const std::vector<std::int32_t> ids = material.tokenizer.encode(line, false);
    REQUIRE(ids.size() < static_cast<std::size_t>(span.end));
    CHECK(std::vector<std::int32_t>(sequence.ids.begin() + span.end - static_cast<std::ptrdiff_t>(ids.size()),
                                    sequence.ids.begin() + span.end) == ids);
  }
}

TEST_CASE("a palindrome is a list, more than 50 tokens, and the list backwards, every part at its place") {
  if (!has_sample()) return test::skip("no sample model");
  const std::string of = GENERATE("models/kvscope-tiny", "recipes/palindrome");
  CAPTURE(of);
  const Tokenizer tokenizer = Tokenizer::load(test::source_folder() / "samples" / of);
  const PalindromeSequences sequences(tokenizer, {.length = 400}, 5), same(tokenizer, {.length = 400}, 5);
  CHECK(same.make(7).ids == sequences.make(7).ids);
  CHECK(sequences.make(8).ids != sequences.make(7).ids);
  const AnswerSpan first = sequences.make(0).spans.front();
  for (std::uint64_t i = 0; i < 10; ++i) {
    const TaskSequence sequence = sequences.make(i);
    REQUIRE(sequence.ids.size() == 401);
    REQUIRE(sequence.roles.size() == 401);
    REQUIRE(sequence.spans.size() == 1);
    CHECK((sequence.spans.front() == first));
    CHECK(first.end == 400);
    const std::string before = text_of(tokenizer, sequence, 0, first.begin);
    const std::string list = before.substr(0, before.find('.') + 1),
                      answer = text_of(tokenizer, sequence, first.begin, 400);
    CHECK(answer == answer_from(list, TaskKind::reversal));
    CHECK(std::count(answer.begin(), answer.end(), ' ') == 32);
    CHECK(before.ends_with("full stop.\nReversed:"));
    const std::string gap = before.substr(list.size(), before.rfind("\nReversed:") - list.size());
    CHECK(tokenizer.encode(gap, false).size() > 50);
    for (int t = 0; t < 401; ++t) {
      CHECK(sequence.roles[t] == (t < first.begin ? TokenRole::statement
                                  : t < 400       ? TokenRole::answer
                                                  : TokenRole::text));
    }
  }
  CHECK_THROWS_AS(PalindromeSequences(tokenizer, {.length = 188, .numbers = 32}, 5), Error);
  CHECK_THROWS_AS(PalindromeSequences(tokenizer, {.length = 60}, 5), Error);
}

TEST_CASE("a repeated text is a text, the request and the text again, every part at its place") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  const int length = GENERATE(120, 121);
  const RepeatSequences sequences(material.tokens, material.tokenizer, nullptr, {.length = length}, 5),
      same(material.tokens, material.tokenizer, nullptr, {.length = length}, 5);
  CHECK(same.make(7).ids == sequences.make(7).ids);
  CHECK(sequences.make(8).ids != sequences.make(7).ids);
  const RepeatSpan span = sequences.span();
  CHECK(span.text == 0);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const TaskSequence sequence = sequences.make(i);
    const int end = static_cast<int>(span.repetition + span.n);
    REQUIRE(sequence.ids.size() == static_cast<std::size_t>(length) + 1);
    CHECK(end <= length);
    CHECK(end >= length - 1);  // a longer text would not fit twice
    for (int t = 0; t < span.n; ++t) CHECK(sequence.ids[t] == sequence.ids[t + span.repetition]);
    CHECK(text_of(material.tokenizer, sequence, static_cast<int>(span.n), static_cast<int>(span.repetition)) ==
          "\n\nRepeat the previous context exactly.\n\n");
    REQUIRE(sequence.roles.size() == sequence.ids.size());
    for (int t = 0; t <= length; ++t) {
      CHECK(sequence.roles[t] == (t < span.n                        ? TokenRole::text
                                  : t >= span.repetition && t < end ? TokenRole::answer
                                                                    : TokenRole::statement));
    }
  }
  CHECK_THROWS_WITH(RepeatSequences(material.tokens, material.tokenizer, nullptr, {.length = 20}, 5),
                    Catch::Contains("data.length: 20; expected at least"));
  CHECK_THROWS_WITH(RepeatSequences(std::span(material.tokens).first(200), material.tokenizer, nullptr, {}, 5),
                    Catch::Contains("text of the corpus: 200 tokens"));
}

TEST_CASE("in a chat the text and the request are the user's, and the repetition is the answer") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  const ChatTemplate chat = ChatTemplate::from_text(
      "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}[assistant] {% endif %}",
      {}, "test", "chat_template");
  const RepeatSequences sequences(material.tokens, material.tokenizer, &chat, {.length = 120}, 5);
  const RepeatSpan span = sequences.span();
  const TaskSequence sequence = sequences.make(3);
  const auto text = [&](std::int64_t begin, std::int64_t end) {
    return text_of(material.tokenizer, sequence, static_cast<int>(begin), static_cast<int>(end));
  };
  CHECK(text(0, span.text) == "[user] ");
  CHECK(text(span.text + span.n, span.repetition) == "\n\nRepeat the previous context exactly.\n[assistant] ");
  CHECK(text(span.text, span.text + span.n) == text(span.repetition, span.repetition + span.n));
  const RepeatSequences plain(material.tokens, material.tokenizer, &chat, {.length = 120, .chat = false}, 5);
  CHECK(plain.span().text == 0);
}

TEST_CASE("of the palindrome recipes' tokenizer a number is one token, and the blank before it another") {
  const Tokenizer tokenizer = Tokenizer::load(test::in_source("samples/recipes/palindrome"));
  for (const char* text : {" 07", " 70", " 99"}) CHECK(tokenizer.encode(text, false).size() == 2);
  // Two tokens a number, and a full stop with a line end: as many numbers as there is room for, at most 32.
  for (const auto& [length, numbers] : {std::pair(192, 32), std::pair(128, 16), std::pair(65, 1)}) {
    CAPTURE(length);
    const AnswerSpan span = PalindromeSequences(tokenizer, {.length = length}, 1).make(0).spans.front();
    CHECK(span.end - span.begin == 2 * numbers + 2);
  }
}

TEST_CASE("a sequence depends on seed and index alone") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  const SequenceGenerator one(material.tokens, material.words, {}, 5), same(material.tokens, material.words, {}, 5);
  const SequenceGenerator other(material.tokens, material.words, {}, 6);
  const TaskSequence later = one.make(9), first = one.make(2);
  CHECK(same.make(2).ids == first.ids);
  CHECK(same.make(9).ids == later.ids);
  CHECK(first.ids != later.ids);
  CHECK(other.make(2).ids != first.ids);
}

TEST_CASE("batches come in order and do not depend on the number of threads") {
  if (!has_sample()) return test::skip("no sample model");
  const auto n_threads = GENERATE(1, 2, 5);
  const Material material;
  const SequenceGenerator generator(material.tokens, material.words, {}, 5);
  DataLoader loader(generator, 3, n_threads);
  for (std::uint64_t n = 0; n < 8; ++n) {
    const Batch batch = loader.next();
    CHECK(batch.ids == make_batch(generator, 3 * n, 3).ids);
  }
}

TEST_CASE("tasks that do not fit into a sequence and a text that is too short are refused") {
  if (!has_sample()) return test::skip("no sample model");
  const Material material;
  CHECK_THROWS_AS(SequenceGenerator(material.tokens, material.words, {.length = 128}, 1), Error);
  const std::span<const std::int32_t> little = std::span(material.tokens).first(4000);
  CHECK_THROWS_AS(SequenceGenerator(little, material.words, {}, 1), Error);
}

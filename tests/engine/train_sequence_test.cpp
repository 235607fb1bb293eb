// Task sequences: what is asked can be answered from what was said, and the same seed says the same.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/tasks/sequence.h"
#include "engine/jobs/train/data_loader.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

const std::filesystem::path kModel = std::filesystem::path(KVSCOPE_SOURCE_DIR) / "samples/models/kvscope-tiny";
const std::filesystem::path kText = std::filesystem::path(KVSCOPE_SOURCE_DIR) / "samples/prompts/heldout.txt";

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

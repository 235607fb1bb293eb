// What text gates are trained on, and what evaluations ask: the first must not contain the second.
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "engine/core/support/json_file.h"
#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/text_sequences.h"
#include "engine/jobs/tasks/training_facts.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;
using namespace kvscope::test;

namespace {

/// Words that no English text does without. They say nothing of a form.
const std::set<std::string> kCommon = {"the", "of",  "a",  "is", "in",   "it",  "and", "to", "was",  "at",
                                       "on",  "for", "by", "an", "that", "are", "has", "as", "from", "what"};

/// Lower case; every number is "#".
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
      words.push_back(is_number ? "#" : word);
      word.clear();
    }
  }
  return words;
}

struct Vocabulary {
  std::set<std::string> words, triples;

  void add(const std::string& text) {
    const auto found = words_of(text);
    for (const std::string& word : found)
      if (word != "#" && !kCommon.contains(word)) words.insert(word);
    for (std::size_t i = 2; i < found.size(); ++i) triples.insert(found[i - 2] + " " + found[i - 1] + " " + found[i]);
    triples.erase("# # #");  // numbers alone are no template
  }
};

std::vector<std::string> common(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

constexpr int kDraws = 3000;

const std::filesystem::path kSamples = in_source("samples");

}  // namespace

TEST_CASE("no word, template or question form of an evaluation's task occurs in the facts that gates are trained on",
          "[eval][training]") {
  Vocabulary trained;
  Random random(1);
  for (int i = 0; i < kDraws; ++i) {
    const TrainingFact fact = draw_training_fact(random);
    trained.add(fact.statement);
    trained.add(fact.lead + " " + fact.answer);
  }
  int n_tasks = 0;
  for (const Task& task : task_list()) {
    if (task.write == nullptr || task.name == "trained-forms") continue;
    ++n_tasks;
    Vocabulary asked;
    for (int i = 0; i < 400; ++i) {
      const TaskText text = task.write(random, 1024);
      for (const std::string& statement : text.statements) asked.add(statement);
      for (const std::string& paragraph : text.haystack) asked.add(paragraph);
      asked.add(text.question);
      asked.add(text.lead + " " + text.answer);
    }
    CAPTURE(std::string(task.name));
    CHECK(common(trained.words, asked.words) == std::vector<std::string>{});
    CHECK(common(trained.triples, asked.triples) == std::vector<std::string>{});
  }
  CHECK(n_tasks == 23);
}

TEST_CASE("every family of training facts states its answer once, and asks for it without it", "[eval][training]") {
  CHECK(training_families().size() == 7);
  for (const TrainingFamily& family : training_families()) {
    Random random(2);
    std::set<std::string> statements;
    for (int i = 0; i < 200; ++i) {
      const TrainingFact fact = family.draw(random);
      INFO(family.name << ": " << fact.statement << " / " << fact.lead << " / " << fact.answer);
      CHECK(fact.statement.find(fact.answer) != std::string::npos);
      CHECK((" " + fact.lead + " ").find(" " + fact.answer + " ") == std::string::npos);
      CHECK_FALSE(fact.lead.ends_with(' '));
      CHECK_FALSE(fact.answer.empty());
      statements.insert(fact.statement);
    }
    CHECK(statements.size() > 190);  // hardly ever the same twice
  }
}

TEST_CASE("a training sequence with facts has each answer after its question, and exactly its length",
          "[eval][training]") {
  const auto folder = kSamples / "models/kvscope-tiny";
  if (!std::filesystem::exists(folder / "tokenizer.json")) return skip("there is no sample model");
  const auto tokenizer = Tokenizer::load(folder);
  const auto text = tokenizer.encode(read_file(kSamples / "prompts/heldout.txt", 1 << 24).substr(0, 60'000));
  const TextSequences source(text, tokenizer, {.length = 1024, .facts_share = 1, .max_facts = 3}, 9);
  std::set<std::string> forms;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const TaskSequence sequence = source.make(i);
    REQUIRE(sequence.ids.size() == 1025);
    REQUIRE_FALSE(sequence.spans.empty());
    const std::string whole = tokenizer.decode_further(sequence.ids);
    for (const AnswerSpan& span : sequence.spans) {
      const std::string answer =
          tokenizer.decode_further({sequence.ids.begin() + span.begin, sequence.ids.begin() + span.end});
      REQUIRE(answer.starts_with(' '));
      REQUIRE(answer.ends_with('\n'));
      // It was stated before: the sequence has it at least twice.
      const std::string value = answer.substr(1, answer.size() - 2);
      const std::size_t first = whole.find(value);
      CHECK(whole.find(value, first + 1) != std::string::npos);
    }
    forms.insert(whole.find("| train |") != std::string::npos ? "table"
                 : whole.find("assert ") != std::string::npos ? "code"
                                                              : "");
  }
  CHECK(forms.size() == 3);
}

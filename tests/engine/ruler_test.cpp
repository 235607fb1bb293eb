// The 13 tasks in the style of RULER: a few lines of text search find every answer in its question.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "engine/core/study/measure/task_sets.h"
#include "tests/engine/task_text.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;
using test::all_of;
using test::Found;
using test::last_line;
using test::one_of;

namespace {

std::string code_of(const std::string& text, const std::string& key) {
  return one_of(text, "The secret code of " + key + " is ([0-9a-f-]+)\\.");
}

Found of_needle(const std::string& text) {
  return {code_of(text, one_of(last_line(text), "The secret code of (.*) is"))};
}

Found of_values(const std::string& text) {
  const std::string thing = one_of(last_line(text), "codes of the (.*) are");
  return all_of(text, "One of the secret codes of the " + thing + " is (\\d+)\\.");
}

Found of_queries(const std::string& text) {
  Found codes;
  for (const std::string& key : all_of(last_line(text), "(the [a-z]+ [a-z]+)")) {
    if (!key.starts_with("the secret")) codes.push_back(code_of(text, key));
  }
  CHECK(codes.size() == 4);
  return codes;
}

Found of_chain(const std::string& text) {
  const std::string value = one_of(last_line(text), "The number (\\d+) is the value of");
  Found names = {one_of(text, "The variable ([a-z]+) has the value " + value)};
  while (true) {
    const Found next = all_of(text, "The variable ([a-z]+) has the same value as the variable " + names.back());
    if (next.empty()) return names;
    names.push_back(next.at(0));
  }
}

/// The n most frequent words; the next one is less frequent.
Found most_frequent(const std::string& text, std::size_t n) {
  std::map<std::string, int> counts;
  std::istringstream words(one_of(text, "List of words: ([a-z ]+)\\."));
  for (std::string word; words >> word;) ++counts[word];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [word, count] : counts) sorted.emplace_back(-count, word);
  std::ranges::sort(sorted);
  REQUIRE(sorted.size() > n);
  CHECK(sorted[n - 1].first < sorted[n].first);
  Found found;
  for (std::size_t i = 0; i < n; ++i) found.push_back(sorted[i].second);
  return found;
}

/// What follows the last line's words in the text, or after "became a".
Found of_paragraph(const std::string& text) {
  const std::string lead = last_line(text);
  const Found worker = all_of(lead, "By trade, (.*) is a");
  if (worker.empty()) return {one_of(text, lead + " ([A-Za-z]+)[ .]")};
  return {one_of(text, worker[0] + " was born in the city of [A-Za-z]+ and became a ([a-z]+)\\.")};
}

Found of_hops(const std::string& text) {
  const std::string person = one_of(last_line(text), "at which (.*) works");
  const std::string house = one_of(text, person + " was born in [A-Za-z ]+, and works at the ([A-Za-z ]+)\\.");
  return {one_of(text, "The " + house + " has \\d+ rooms. One finds it in the city of ([A-Za-z]+)\\.")};
}

using Solve = std::function<Found(const std::string&)>;

const std::map<std::string_view, Solve> kSolvers = {
    {"needle-noise", of_needle},
    {"needle", of_needle},
    {"needle-id", of_needle},
    {"needle-keys", of_needle},
    {"needle-lines", of_needle},
    {"needle-ids", of_needle},
    {"needle-values", of_values},
    {"needle-queries", of_queries},
    {"variable-chain", of_chain},
    {"common-ten", [](const std::string& text) { return most_frequent(text, 10); }},
    {"frequent-words", [](const std::string& text) { return most_frequent(text, 3); }},
    {"qa-paragraph", of_paragraph},
    {"qa-hops", of_hops}};

}  // namespace

TEST_CASE("every answer of the RULER set follows from the text of its question alone", "[eval]") {
  if (!test::has_sample_tokenizer()) return test::skip("no sample model");
  const test::SampleMaterial m;
  REQUIRE(kSolvers.size() == kRulerTasks.size());
  for (const std::string_view name : kRulerTasks) {
    const Task& task = find_task(name);
    std::set<std::string> answers;
    for (const int length : {700, 3000}) {
      for (std::uint64_t index = 0; index < 20; ++index) {
        CAPTURE(std::string(name), length, index);
        const TaskQuestion question = make_question(task, m.material, index, length);
        std::string solved;
        for (const std::string& part : kSolvers.at(name)(m.tokenizer.decode(question.prompt)))
          solved += (solved.empty() ? " " : ", ") + part;
        CAPTURE(question.expected, solved);
        CHECK(task.mark(question.expected, solved));
        CHECK(std::ranges::count(solved, ',') == std::ranges::count(question.expected, ','));
        answers.insert(question.expected);
      }
    }
    CHECK(answers.size() > (name.starts_with("qa-") ? 8 : 18));
  }
}

TEST_CASE("a haystack of needles or people fills the question, with different keys", "[eval]") {
  if (!test::has_sample_tokenizer()) return test::skip("no sample model");
  const test::SampleMaterial m;
  const std::map<std::string_view, std::string> patterns = {
      {"needle-lines", "\nThe secret code of (the [a-z ]+) is \\d{5}\\.\n"},
      {"needle-ids", "\nThe secret code of ([0-9a-f-]{36}) is [0-9a-f-]{36}\\.\n"},
      {"qa-paragraph", "\n([A-Z][a-z]+ [A-Z][a-z]+-[A-Z][a-z]+) was born in [^\n]+\n"},
      {"qa-hops", "\n([A-Z][a-z]+ [A-Z][a-z]+-[A-Z][a-z]+ was born|The [A-Za-z ]+ Hotel has) [^\n]+\n"}};
  for (const auto& [name, pattern] : patterns) {
    CAPTURE(std::string(name));
    const TaskQuestion question = make_question(find_task(name), m.material, 1, 4000);
    const std::string text = m.tokenizer.decode(question.prompt);
    const Found keys = all_of(text, pattern);
    CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
    // Besides whole paragraphs there is a cut one at each end, and the lead.
    CHECK(std::regex_replace(text, std::regex(pattern), "").size() < 700);
    CHECK(keys.size() > 15);
  }
}

// Reasoning problems: their answers by other means, from the statement's text alone, and what training and evaluation make of
// them.
#include "engine/jobs/tasks/reasoning.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "engine/jobs/tasks/reasoning_sequences.h"
#include "engine/jobs/tasks/task.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;
using namespace kvscope::test;

namespace {

const std::filesystem::path kTiny = in_source("samples/models/kvscope-tiny");

std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

std::string padded(int number) { return (number < 10 ? "0" : "") + std::to_string(number); }

/// Does one line of a program, e.g. "07 add x z". The number of the next one.
std::string machine_step(const std::vector<std::string>& line, std::map<std::string, int>& r) {
  const std::string &what = line[1], &a = line[2];
  if (what == "set") r[a] = std::stoi(line[3]);
  if (what == "add") r[a] = (r[a] + r[line[3]]) % 100;
  if (what == "copy") r[a] = r[line[3]];
  if (what == "dec") r[a] = r[a] == 0 ? 99 : r[a] - 1;
  if (what == "jump" && r[a] != 0) return line[3];
  return padded(std::stoi(line[0]) + 1);
}

std::string machine_answer(const std::vector<std::vector<std::string>>& lines) {
  std::map<std::string, int> r = {{"w", 0}, {"x", 0}, {"y", 0}, {"z", 0}};
  const int n = static_cast<int>(lines.size()) - 2;  // without the first and the last line
  int steps = 0;
  for (int at = 0; at < n && steps < 100'000; ++steps) {
    const auto& line = lines[static_cast<std::size_t>(at) + 1];
    REQUIRE(std::stoi(line[0]) == at);
    at = std::stoi(machine_step(line, r));
  }
  return padded(r[lines.back()[1]]);
}

std::string walk_answer(const std::vector<std::vector<std::string>>& lines) {
  std::map<std::string, std::pair<std::string, int>> out;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) out[lines[i][0]] = {lines[i][1], std::stoi(lines[i][2])};
  std::string at = lines.back()[4];
  int sum = 0;
  for (int i = std::stoi(lines.back()[1]); i > 0; --i) sum += out[at].second, at = out[at].first;
  return at + " " + padded(sum % 100);
}

/// By relaxing all edges until nothing changes.
std::string search_answer(const std::vector<std::vector<std::string>>& lines) {
  std::map<std::string, int> distance;
  distance[lines.back()[1]] = 0;
  for (std::size_t round = 0; round < lines.size(); ++round) {
    for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
      if (!distance.contains(lines[i][0])) continue;
      for (std::size_t j = 2; j < lines[i].size(); ++j) {
        const int through = distance[lines[i][0]] + 1;
        const auto there = distance.emplace(lines[i][j], through).first;
        there->second = std::min(there->second, through);
      }
    }
  }
  return padded(distance.at(lines.back()[3]));
}

std::string sort_answer(const std::vector<std::vector<std::string>>& lines) {
  const int place = std::stoi(lines.back()[1]);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    int smaller = 0;
    for (std::size_t j = 1; j + 1 < lines.size(); ++j) smaller += std::stoi(lines[j][1]) < std::stoi(lines[i][1]);
    if (smaller == place - 1) return lines[i][0];
  }
  return "";
}

std::string sum_answer(const std::vector<std::vector<std::string>>& lines) {
  std::vector<int> digits;  // of the sum, the lowest first
  int carry = 0, total = 0;
  for (std::size_t i = 1; i < lines[1].size(); i += 2) {
    digits.push_back(std::stoi(lines[1][i]) + std::stoi(lines[2][i]) + carry);
    carry = digits.back() / 10;
    total += digits.back() % 10;
  }
  return padded((total + carry) % 100);
}

std::string answer_by_other_means(std::string_view kind, const std::string& statement) {
  const auto lines = lines_of(statement);
  REQUIRE(lines.front() == std::vector<std::string>{std::string(kind)});
  REQUIRE(lines.back().front() == "ask");
  if (kind == "machine") return machine_answer(lines);
  if (kind == "walk") return walk_answer(lines);
  if (kind == "search") return search_answer(lines);
  return kind == "sort" ? sort_answer(lines) : sum_answer(lines);
}

}  // namespace

TEST_CASE("the answer of every reasoning problem is that of another program, from its statement alone",
          "[eval][reasoning]") {
  for (const ReasoningKind& kind : reasoning_kinds()) {
    Random random(5);
    std::set<std::string> answers;
    for (int i = 0; i < 300; ++i) {
      const int size = kLeastReasoningSize + static_cast<int>(random.below(150));
      const ReasoningProblem problem = kind.draw(random, size);
      INFO(kind.name << ", size " << size << "\n" << problem.statement << problem.solution);
      REQUIRE(problem.answer == answer_by_other_means(kind.name, problem.statement));
      REQUIRE(problem.solution.ends_with("answer " + problem.answer + "\n"));
      answers.insert(problem.answer);
    }
    CHECK(answers.size() > (kind.name == "search" ? 8u : 20u));  // no guess is right often
  }
}

TEST_CASE("each step of a written-out machine, search or sort follows from the statement and the steps before it",
          "[eval][reasoning]") {
  const auto problem_of = [](std::size_t kind, std::uint64_t seed) {
    Random random(seed);
    const ReasoningProblem problem = reasoning_kinds()[kind].draw(random, 40);
    return std::pair(lines_of(problem.statement), lines_of(problem.solution));
  };
  using Words = std::vector<std::string>;
  const auto between = [](const Words& line, const std::string& from, const std::string& to) {
    const auto begin = std::ranges::find(line, from);
    return Words(std::next(begin), std::find(begin, line.end(), to));
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto [program, run] = problem_of(0, seed);
    std::map<std::string, int> r = {{"w", 0}, {"x", 0}, {"y", 0}, {"z", 0}};
    std::size_t at = 0;
    for (const Words& line : std::span(run).first(run.size() - 2)) {
      const Words step(line.begin(), std::ranges::find(line, ":"));
      REQUIRE(step == program[at + 1]);
      at = std::stoul(machine_step(step, r));
      REQUIRE(between(line, ":", "") == Words{padded(r["w"]), padded(r["x"]), padded(r["y"]), padded(r["z"])});
    }
    CHECK(at + 2 == program.size());  // between its first line and the question

    auto [graph, visits] = problem_of(2, seed);
    std::map<std::string, Words> neighbours;
    for (const Words& line : std::span(graph).subspan(1)) neighbours[line[0]] = Words(line.begin() + 2, line.end());
    Words queue = {graph.back()[1]};
    for (std::size_t i = 0; i + 3 < visits.size(); ++i) {
      REQUIRE(visits[i][0] == queue[i]);
      REQUIRE(between(visits[i], ":", ">") == neighbours.at(queue[i]));
      Words added;
      for (const std::string& to : neighbours.at(queue[i]))
        if (std::ranges::find(queue, to) == queue.end()) added.push_back(to);
      REQUIRE(between(visits[i], ">", "") == added);
      queue.insert(queue.end(), added.begin(), added.end());
    }
    CHECK(visits[visits.size() - 3][0] == graph.back()[3]);

    auto [numbers, sorted] = problem_of(3, seed);
    CHECK(sorted[sorted.size() - 2] == sorted[std::stoul(numbers.back()[1]) - 1]);
  }
}

TEST_CASE("larger reasoning problems have longer solutions, from tens of steps to hundreds", "[eval][reasoning]") {
  for (const ReasoningKind& kind : reasoning_kinds()) {
    std::size_t steps[2] = {0, 0};
    for (int large = 0; large < 2; ++large) {
      Random random(6);
      for (int i = 0; i < 20; ++i) steps[large] += lines_of(kind.draw(random, large == 0 ? 10 : 60).solution).size();
    }
    CAPTURE(std::string(kind.name));
    CHECK(steps[1] > 2 * steps[0]);
  }
}

TEST_CASE("reasoning sequences have the length that was asked for, and whole solutions after their statements",
          "[training][reasoning]") {
  if (!std::filesystem::exists(kTiny / "tokenizer.json")) return skip("there is no sample model");
  const auto tokenizer = Tokenizer::load(kTiny);
  const ReasoningSequences source(tokenizer, 2048, 7);
  int n_spans = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const TaskSequence sequence = source.make(i);
    REQUIRE(sequence.ids.size() == 2049);
    REQUIRE(sequence.roles.size() == 2049);
    CHECK(source.make(i).ids == sequence.ids);
    std::int32_t before = 0;
    for (const AnswerSpan& span : sequence.spans) {
      const std::string statement =
          tokenizer.decode_further({sequence.ids.begin() + before, sequence.ids.begin() + span.begin});
      const std::string solution =
          tokenizer.decode_further({sequence.ids.begin() + span.begin, sequence.ids.begin() + span.end});
      const auto lines = lines_of(statement);
      REQUIRE(lines.size() > 2);
      const std::string& kind = lines[1].front();  // after an empty line
      const std::string answer = answer_by_other_means(kind, statement.substr(statement.find(kind)));
      CHECK(solution.ends_with("answer " + answer + "\n"));
      before = span.end;
      ++n_spans;
    }
  }
  CHECK(n_spans > 24);
}

TEST_CASE("a reasoning question uses the length that it may have, and only the answer of its last line counts",
          "[eval][reasoning]") {
  if (!std::filesystem::exists(kTiny / "tokenizer.json")) return skip("there is no sample model");
  const auto tokenizer = Tokenizer::load(kTiny);
  const TaskMaterial material = TaskMaterial::make(tokenizer, "Some text.\n", nullptr, 3);
  for (const ReasoningKind& kind : reasoning_kinds()) {
    const Task& task = find_task("reason-" + std::string(kind.name));
    CAPTURE(std::string(task.name));
    for (const int length : {400, 1500}) {
      const TaskQuestion question = make_question(task, material, 4, length);
      const int n = static_cast<int>(question.prompt.size()) + question.max_tokens;
      CHECK(n <= length);
      if (length == 400) CHECK(n > length / 2);
      CHECK(make_question(task, material, 4, length).prompt == question.prompt);
      const std::string statement = tokenizer.decode_further(question.prompt);
      CHECK(question.expected == answer_by_other_means(kind.name, statement.substr(1)));
      CHECK(task.mark(question.expected, "00 : 01 02\nanswer " + question.expected + "\n"));
      CHECK(task.mark(question.expected, "answer 1x\nanswer " + question.expected));
      CHECK_FALSE(task.mark(question.expected, "answer " + question.expected + "0\n"));
      CHECK_FALSE(task.mark(question.expected, question.expected));
    }
    CHECK_THROWS(make_question(task, material, 4, 20));
  }
}

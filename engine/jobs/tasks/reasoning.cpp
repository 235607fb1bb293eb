#include "engine/jobs/tasks/reasoning.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "engine/core/support/shuffle.h"

namespace kvscope::engine {
namespace {

constexpr std::string_view kConsonants = "bdfgklmnprst", kVowels = "aeiou";
constexpr int kNames = 12 * 5;  // of two letters

/// "ba", "be", ...: 60 names.
std::string name_of(int i) {
  return {kConsonants[static_cast<std::size_t>(i / 5)], kVowels[static_cast<std::size_t>(i % 5)]};
}

/// 0 ... n - 1 in a random order.
std::vector<int> shuffled(Random& random, int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  shuffle(random, order);
  return order;
}

std::string two_digits(int number) {
  return {static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10)};
}

/// The solution repeats what was asked, the statement's last line, before what `found` it and the answer: otherwise the
/// answer's few tokens must both read the question and look up a step, which a small model may never learn.
ReasoningProblem with_answer(std::string statement, std::string steps, std::string answer,
                             const std::string& found = "") {
  const std::size_t ask = statement.rfind("ask");
  steps += statement.substr(ask) + found + "answer " + answer + "\n";
  return {std::move(statement), std::move(steps), std::move(answer)};
}

// Register machine: four registers modulo 100. A step copies its line of the program and changes the registers of the step
// before.
struct Instruction {
  enum Kind { set, add, copy, dec, jump } kind;
  int a, b;  // registers; of set a number, of jump a line

  std::string text() const {
    const auto r = [](int i) { return std::string(1, static_cast<char>('w' + i)); };
    switch (kind) {
      case set:
        return "set " + r(a) + " " + two_digits(b);
      case add:
        return "add " + r(a) + " " + r(b);
      case copy:
        return "copy " + r(a) + " " + r(b);
      case dec:
        return "dec " + r(a);
      case jump:
        break;
    }
    return "jump " + r(a) + " " + two_digits(b);
  }
};

constexpr int kRegisters = 4;
using Registers = std::array<int, kRegisters>;

/// The next line.
int run(const Instruction& i, int line, Registers& r) {
  int& a = r[static_cast<std::size_t>(i.a)];
  switch (i.kind) {
    case Instruction::set:
      a = i.b;
      break;
    case Instruction::add:
      a = (a + r[static_cast<std::size_t>(i.b)]) % 100;
      break;
    case Instruction::copy:
      a = r[static_cast<std::size_t>(i.b)];
      break;
    case Instruction::dec:
      a = (a + 99) % 100;
      break;
    case Instruction::jump:
      return a != 0 ? i.b : line + 1;
  }
  return line + 1;
}

/// A body of a few instructions, which a counter repeats, then the next one: it ends, after about `size` steps.
ReasoningProblem machine(Random& random, int size) {
  std::vector<Instruction> program;
  const auto other = [&] { return static_cast<int>(1 + random.below(kRegisters - 1)); };  // register 0 counts
  for (int r = 1; r < kRegisters; ++r) program.push_back({Instruction::set, r, static_cast<int>(random.below(100))});
  for (int left = size; left > 0 && program.size() < 80;) {
    const int body = static_cast<int>(random.between(1, std::clamp(left - 3, 1, 4)));
    const int rounds = static_cast<int>(random.between(1, std::clamp((left - 1) / (body + 2), 1, 9)));
    program.push_back({Instruction::set, 0, rounds});
    const int begin = static_cast<int>(program.size());
    for (int i = 0; i < body; ++i) {
      const auto kind = random.below(4);
      if (kind < 2) program.push_back({Instruction::add, other(), other()});
      if (kind == 2) program.push_back({Instruction::copy, other(), other()});
      if (kind == 3) program.push_back({Instruction::dec, other(), 0});
    }
    program.push_back({Instruction::dec, 0, 0});
    program.push_back({Instruction::jump, 0, begin});
    left -= 1 + rounds * (body + 2);
  }
  std::string statement = "machine\n", steps;
  for (std::size_t i = 0; i < program.size(); ++i)
    statement += two_digits(static_cast<int>(i)) + " " + program[i].text() + "\n";
  const int asked = other();
  statement += "ask " + std::string(1, static_cast<char>('w' + asked)) + "\n";
  Registers registers{};
  for (int line = 0; line < static_cast<int>(program.size());) {
    const int next = run(program[static_cast<std::size_t>(line)], line, registers);
    steps += two_digits(line) + " " + program[static_cast<std::size_t>(line)].text() + " :";
    for (const int value : registers) steps += " " + two_digits(value);
    steps += "\n";
    line = next;
  }
  return with_answer(std::move(statement), std::move(steps), two_digits(registers[static_cast<std::size_t>(asked)]));
}

/// A graph in which each node has one successor and a worth: where a walk ends, and what it is worth modulo 100.
ReasoningProblem walk(Random& random, int size) {
  const int n = std::min(kNames, std::max(6, size / 2));
  const std::vector<int> places = shuffled(random, kNames), ring = shuffled(random, n);
  std::vector<int> next(static_cast<std::size_t>(n)), worth(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {  // one ring: a walk meets all of them
    next[static_cast<std::size_t>(ring[static_cast<std::size_t>(i)])] = ring[static_cast<std::size_t>((i + 1) % n)];
    worth[static_cast<std::size_t>(i)] = static_cast<int>(random.below(10));
  }
  const auto name = [&](int i) { return name_of(places[static_cast<std::size_t>(i)]); };
  std::string statement = "walk\n", steps;
  for (int i = 0; i < n; ++i)
    statement += name(i) + " " + name(next[static_cast<std::size_t>(i)]) + " " +
                 std::to_string(worth[static_cast<std::size_t>(i)]) + "\n";
  const int n_steps = std::min(size, 99);
  int at = static_cast<int>(random.below(static_cast<std::uint64_t>(n))), sum = 0;
  statement += "ask " + two_digits(n_steps) + " steps from " + name(at) + "\n";
  for (int step = 1; step <= n_steps; ++step) {
    sum = (sum + worth[static_cast<std::size_t>(at)]) % 100;
    at = next[static_cast<std::size_t>(at)];
    steps += two_digits(step) + " " + name(at) + " sum " + two_digits(sum) + "\n";
  }
  return with_answer(std::move(statement), std::move(steps), name(at) + " " + two_digits(sum));
}

/// Breadth-first search: each line visits the oldest node of the queue and lists its neighbours, then those that no line has
/// listed before.
ReasoningProblem search(Random& random, int size) {
  const int n = std::clamp(size, 6, kNames);
  const std::vector<int> places = shuffled(random, kNames);
  std::vector<std::set<int>> edges(static_cast<std::size_t>(n));
  const auto join = [&](int a, int b) {
    edges[static_cast<std::size_t>(a)].insert(b), edges[static_cast<std::size_t>(b)].insert(a);
  };
  for (int i = 1; i < n; ++i) join(i, static_cast<int>(random.below(static_cast<std::uint64_t>(i))));
  for (int i = 0; i < n / 3; ++i) {
    const int a = static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    const int b = static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    if (a != b) join(a, b);
  }
  const auto name = [&](int i) { return name_of(places[static_cast<std::size_t>(i)]); };
  std::string statement = "search\n", steps;
  for (const int i : shuffled(random, n)) {
    statement += name(i) + " :";
    for (const int to : edges[static_cast<std::size_t>(i)]) statement += " " + name(to);
    statement += "\n";
  }
  const std::vector<int> ends = shuffled(random, n);
  statement += "ask " + name(ends[0]) + " to " + name(ends[1]) + "\n";
  std::map<int, int> depth = {{ends[0], 0}};
  for (std::deque<int> queue = {ends[0]}; queue.front() != ends[1]; queue.pop_front()) {
    const int at = queue.front();
    std::string added;
    steps += name(at) + " " + two_digits(depth[at]) + " :";
    for (const int to : edges[static_cast<std::size_t>(at)]) {
      steps += " " + name(to);
      if (!depth.emplace(to, depth[at] + 1).second) continue;
      added += " " + name(to);
      queue.push_back(to);
    }
    steps += " >" + added + "\n";
  }
  const std::string found = two_digits(depth[ends[1]]);
  steps += name(ends[1]) + " " + found + "\n";
  return with_answer(std::move(statement), std::move(steps), found);
}

/// Different numbers of three digits, written in ascending order, each with its name; the name of one place is asked for.
ReasoningProblem sort(Random& random, int size) {
  const int n = std::clamp(size, 4, kNames);
  const std::vector<int> places = shuffled(random, kNames), numbers = shuffled(random, 900);
  std::vector<std::pair<int, std::string>> items;
  std::string statement = "sort\n", steps;
  for (int i = 0; i < n; ++i) {
    items.emplace_back(100 + numbers[static_cast<std::size_t>(i)], name_of(places[static_cast<std::size_t>(i)]));
    statement += items.back().second + " " + std::to_string(items.back().first) + "\n";
  }
  const int asked = static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
  statement += "ask " + two_digits(asked + 1) + "\n";
  std::ranges::sort(items);
  const auto line = [&](int i) {
    const auto& [number, name] = items[static_cast<std::size_t>(i)];
    return two_digits(i + 1) + " " + std::to_string(number) + " " + name + "\n";
  };
  for (int i = 0; i < n; ++i) steps += line(i);
  return with_answer(std::move(statement), std::move(steps), items[static_cast<std::size_t>(asked)].second,
                     line(asked));
}

/// Two long numbers, a named place a digit, from the lowest up: their digit sum with carries.
ReasoningProblem sum(Random& random, int size) {
  const int n = std::clamp(size, 4, kNames);
  const std::vector<int> places = shuffled(random, kNames);
  std::array<std::vector<int>, 2> digits;
  std::string statement = "sum\n", steps, answer;
  for (auto& number : digits) {
    for (int i = 0; i < n; ++i) {
      number.push_back(static_cast<int>(random.below(10)));
      statement +=
          (i == 0 ? "" : " ") + name_of(places[static_cast<std::size_t>(i)]) + " " + std::to_string(number.back());
    }
    statement += "\n";
  }
  statement += "ask\n";
  int carry = 0, total = 0;
  for (int i = 0; i < n; ++i) {
    const int a = digits[0][static_cast<std::size_t>(i)], b = digits[1][static_cast<std::size_t>(i)], s = a + b + carry;
    steps += name_of(places[static_cast<std::size_t>(i)]) + " " + std::to_string(a) + " " + std::to_string(b) +
             " carry " + std::to_string(carry) + " : " + two_digits(s);
    carry = s / 10;
    total = (total + s % 10) % 100;  // of the sum's digits: every step counts for the answer
    steps += " total " + two_digits(total) + "\n";
  }
  return with_answer(std::move(statement), std::move(steps), two_digits((total + carry) % 100));
}

constexpr ReasoningKind kKinds[] = {
    {"machine", "A program for four registers, run line by line; the answer is a register at its end.", machine, 19},
    {"walk", "A graph with one way out of each node; the answer is where a walk ends, and what it is worth.", walk, 9},
    {"search", "A graph, searched breadth first; the answer is the distance of two nodes.", search, 12},
    {"sort", "Numbers with names, written in order; the answer is the name at one place.", sort, 8},
    {"sum", "Two long numbers, added digit by digit with carries; the answer is the digit sum.", sum, 15}};

}  // namespace

std::span<const ReasoningKind> reasoning_kinds() { return kKinds; }

}  // namespace kvscope::engine

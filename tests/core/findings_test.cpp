// docs/records/findings.md names the tests that hold each finding; a test that is renamed or goes must not leave its
// name there.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/folders.h"

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// The string literals that follow each other from `at` on, as one text.
std::string literal_at(const std::string& source, std::size_t at) {
  std::string out;
  while ((at = source.find_first_not_of(" \n", at)) != std::string::npos && source[at] == '"') {
    for (++at; at < source.size() && source[at] != '"'; ++at) {
      if (source[at] == '\\') ++at;
      out += source[at];
    }
    ++at;
  }
  return out;
}

/// Test cases as CTest shows them, "core_tests: oracle: ...": each folder's CMakeLists.txt says of which program a source
/// is.
std::set<std::string> test_names() {
  std::set<std::string> names;
  for (const fs::directory_entry& folder : fs::directory_iterator(kvscope::test::in_source("tests"))) {
    std::istringstream lines(text_of(folder.path() / "CMakeLists.txt"));
    std::string program;
    for (std::string line; std::getline(lines, line);) {
      const std::string head = "kvscope_test(", word = trimmed(line);
      if (word.starts_with(head)) program = word.substr(head.size(), word.find_first_of(" )") - head.size());
      if (program.empty() || !word.ends_with(".cpp")) continue;
      const std::string source = text_of(folder.path() / word);
      for (const std::string macro : {"TEST_CASE(", "WINDOW_TEST("}) {
        for (std::size_t at = 0; (at = source.find(macro, at)) != std::string::npos;) {
          at += macro.size();
          names.insert(program + ": " + literal_at(source, at));
        }
      }
    }
  }
  return names;
}

}  // namespace

TEST_CASE("docs/records/findings.md names a test for every finding, and every test that it names is there",
          "[.][findings]") {
  const std::set<std::string> there = test_names();
  REQUIRE(there.contains(
      "core_tests: docs/records/findings.md names a test for every finding, and every test that it names is there"));
  std::vector<std::string> findings, expected;
  for (const auto& [letter, n] : {std::pair{'C', 10}, {'H', 16}, {'W', 17}}) {
    for (int i = 1; i <= n; ++i) expected.push_back(letter + std::to_string(i));
  }
  std::istringstream lines(text_of(kvscope::test::in_source("docs/records/findings.md")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|') || line.starts_with("|---") || line.starts_with("| finding |")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(trimmed(cell));
    CAPTURE(line);
    REQUIRE(cells.size() == 3);
    if (!cells[0].empty()) findings.push_back(cells[0]);
    CHECK(cells[0].empty() == cells[1].empty());
    CHECK(there.contains(cells[2]));
  }
  CHECK(findings == expected);
}

// A file of prompts, a line each, as the window reads it.

#include "app/catalog/prompt_lines.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/app/process.h"

using namespace kvscope;
using namespace kvscope::app;
using test::TemporaryFolder;

namespace {

std::filesystem::path written(const TemporaryFolder& folder, const std::string& first) {
  const std::filesystem::path path = folder / "prompts.jsonl";
  std::ofstream(path, std::ios::binary) << "\n" << first << "\n{\"prompt\": \"two\"}\n";
  return path;
}

}  // namespace

TEST_CASE("Lines of prompts are counted, and the first one's text is the prompt") {
  const TemporaryFolder folder;
  const auto path = written(folder, R"({"messages": [{"role": "user", "content": "one"}]})");
  REQUIRE(has_prompt_lines(path));
  const PromptLines lines = read_prompt_lines(path);
  CHECK(lines.first == "one");
  CHECK(lines.n == 2);
}

TEST_CASE("A first line of prompts over 16 MiB is refused as too long, not as what its cut end would read as") {
  const TemporaryFolder folder;
  const std::size_t limit = std::size_t{16} << 20;
  const std::string around = R"({"prompt": ""})";
  const auto line_of = [&](std::size_t bytes) {
    return R"({"prompt": ")" + std::string(bytes - around.size(), 'a') + R"("})";
  };
  CHECK(read_prompt_lines(written(folder, line_of(limit))).first.size() == limit - around.size());
  const auto too_long = written(folder, line_of(limit + 1));
  CHECK_FALSE(has_prompt_lines(too_long));
  CHECK_THROWS_WITH(read_prompt_lines(too_long), Catch::Contains("first line") && Catch::Contains("16777216"));
}

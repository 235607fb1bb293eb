#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/export_run.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

struct File {
  std::filesystem::path path;
  explicit File(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("kvscope-export-" + std::to_string(::getpid()) + name)) {}
  ~File() { std::filesystem::remove(path); }
  std::string text() const { return read_file(path, 1u << 28); }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("export: a CSV has a line for each layer, head and token, and every cell reads back", "[core][export]") {
  const RunRecord run = random_run(3);
  const File file(".csv");
  export_csv(run, parse_export_parts("scores,lifetimes"), file.path);
  const auto lines = lines_of(file.text());
  REQUIRE(lines.size() == 1 + 2 * 3 * 180);
  CHECK(lines[0] == "layer,kv_head,token,evict_at,score,future_mass,eviction_verdict");
  std::size_t at = 1;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      for (int token = 0; token < 180; ++token, ++at) {
        std::vector<std::string> cells(1);
        for (const char c : lines[at]) c == ',' ? cells.emplace_back() : cells.back() += c, void();
        REQUIRE(cells.size() == 7);
        REQUIRE(cells[0] + cells[1] + " " + cells[2] ==
                std::to_string(layer) + std::to_string(head) + " " + std::to_string(token));
        REQUIRE(cells[3] == std::to_string(run.evict_at.row(layer, head)[token]));
        const float score = run.scores.row(layer, head)[token];
        REQUIRE((std::isnan(score) ? cells[4].empty() : std::strtof(cells[4].c_str(), nullptr) == score));
        const float mass = run.future_mass.row(layer, head)[token];
        REQUIRE((std::isnan(mass) ? cells[5].empty() : std::strtof(cells[5].c_str(), nullptr) == mass));
        const VerdictOfEviction found = eviction_verdict(run, layer, head, token);
        const bool known = found.verdict != EvictionVerdict::unknown;
        REQUIRE(cells[6] == (!known ? "" : found.verdict == EvictionVerdict::wrong ? "wrong" : "right"));
      }
    }
  }
}

TEST_CASE("export: each part alone is a table of its own", "[core][export]") {
  const RunRecord run = random_run(3);
  const File file(".csv");
  const auto table = [&](const char* what) {
    export_csv(run, parse_export_parts(what), file.path);
    return lines_of(file.text());
  };
  CHECK(table("lifetimes")[0] == "layer,kv_head,token,evict_at,eviction_verdict");
  CHECK(table("scores")[0] == "layer,kv_head,token,score,future_mass");
  CHECK(table("tokens,scores")[0] == "layer,kv_head,token,text,score,future_mass");
  CHECK(table("tokens,lifetimes")[0] == "layer,kv_head,token,text,evict_at,eviction_verdict");
  const auto contests = table("contests");
  CHECK(contests[0] == "q,layer,kv_head,newcomer,boundary,newcomer_effective,boundary_effective,evicted");
  CHECK(contests.size() == 1 + run.contests.size());
  CHECK(contests[1].starts_with(std::to_string(run.contests[0].q) + ",0,0,"));
  const auto metrics = table("metrics");
  CHECK(metrics[0] ==
        "layer,kv_head,density,evict_ratio,cache_share,recall,mean_recall,chance,above_chance,mass_kept,"
        "mass_kept_but_first,mass_recall,regret,output_error,read_mass,best_read_mass,read_share");
  CHECK(metrics.size() == 1 + 6);
  const float density = head_metric(run, Metric::density, run.queries() - 1).at(0, 0);
  REQUIRE(metrics[1].starts_with("0,0,0."));
  CHECK(std::strtof(metrics[1].c_str() + 4, nullptr) == density);
  const std::string tokens = (table("tokens"), file.text());
  CHECK(tokens.starts_with("token,id,logprob,piece\n0," + std::to_string(run.ids[0]) + ",,"));
  CHECK(tokens.find("\" \"\"quoted\"\"\"") != std::string::npos);  // a piece with quotes
}

TEST_CASE("export: what a run has not is empty in a CSV", "[core][export]") {
  const RunRecord run = random_run(3, {.oracle = false});
  const File csv(".csv");
  export_csv(run, parse_export_parts("lifetimes,scores"), csv.path);
  for (const std::string& line : lines_of(csv.text()))
    CHECK((line.ends_with(",,") || line.ends_with("eviction_verdict")));
}

TEST_CASE("export: parts that make no table, and names that are none, are refused", "[core][export]") {
  const RunRecord run = random_run(3);
  const File file(".csv");
  for (const char* what : {"tokens,metrics", "lifetimes,contests", "lifetimes,scores,tokens,metrics"})
    CHECK_THROWS_AS(export_csv(run, parse_export_parts(what), file.path), Error);
  for (const char* what : {"", "token", "lifetimes,", ",scores"}) CHECK_THROWS_AS(parse_export_parts(what), Error);
  CHECK_FALSE(std::filesystem::exists(file.path));
}

// Budgets of heads from a file, from the command line and in the program: the same run, and a command that says so.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::kvscope_run;

namespace {

bool has_sample() {
  return !test::real_engine().empty() && std::filesystem::exists(test::sample_model() / "model.safetensors");
}

const std::string kPrompt = test::in_source("samples/prompts/2-fact-recall.txt");

test::Result run(const std::string& policy, std::vector<std::string> more) {
  std::vector<std::string> words = {"run",           test::sample_model().string(),
                                    "--prompt-file", kPrompt,
                                    "--policy",      policy,
                                    "--max-tokens",  "6",
                                    "--raw",         "--device",
                                    "cpu",           "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return kvscope_run(words);
}

/// As a file of budgets has them.
std::string lines_of(const RunRecord& run) {
  std::string text = "# tokens of each head\n";
  const std::vector<std::int32_t> budgets = run.budgets();
  for (std::size_t i = 0; i < budgets.size(); ++i)
    text += std::to_string(budgets[i]) + ((i + 1) % static_cast<std::size_t>(run.model.n_kv_heads) == 0 ? "\n" : " ");
  return text;
}

}  // namespace

TEST_CASE(
    "run --budgets makes of AdaKV's budgets the run that AdaKV made, from a file or from the command's own words") {
  if (!has_sample()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string(), again = (folder / "b.h5").string(),
                    third = (folder / "c.h5").string(), file = (folder / "budgets.txt").string();
  const auto first = run("snapkv:keep=30%,window=16,allocation=ada", {"--trace", trace});
  REQUIRE(first.exit_code == 0);
  const RunRecord ada = load_trace(trace, 0);
  REQUIRE(ada.budgets().size() == static_cast<std::size_t>(ada.model.n_layers * ada.model.n_kv_heads));
  std::ofstream(file) << lines_of(ada);
  REQUIRE(run("snapkv:keep=30%,window=16", {"--budgets", file, "--trace", again}).exit_code == 0);
  const RunRecord given = load_trace(again, 0);
  CHECK(given.evict_at == ada.evict_at);
  CHECK((given.heads == ada.heads));
  CHECK(given.ids == ada.ids);
  CHECK(given.asked->request.budgets == ada.budgets());
  CHECK_THAT(command_line(given), Catch::Contains(" --budgets " + std::to_string(ada.budgets()[0]) + ","));
  std::string flat;
  for (const std::int32_t budget : ada.budgets()) flat += (flat.empty() ? "" : ",") + std::to_string(budget);
  REQUIRE(run("snapkv:keep=30%,window=16", {"--budgets", flat, "--trace", third}).exit_code == 0);
  CHECK(load_trace(third, 0).evict_at == ada.evict_at);
  const auto inspected = kvscope_run({"inspect", again, "--json"});
  CHECK_THAT(inspected.out, Catch::Contains("\"budgets\""));
}

TEST_CASE("run --budgets refuses what is no budget of this model in one line") {
  if (!has_sample()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string file = (folder / "b.txt").string();
  std::ofstream(file) << "40 50\n60\n";
  const auto refused = [&](const std::string& policy, const std::string& budgets, int code, const char* reason) {
    const auto result = run(policy, {"--budgets", budgets});
    CAPTURE(budgets, result.err);
    CHECK(result.exit_code == code);
    CHECK(test::count_lines(result.err) == 1);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  refused("snapkv:keep=30%", file, 2, "b.txt: line 2: 1 numbers; expected 2");
  refused("snapkv:keep=30%", (folder / "no.txt").string(), 2, "no.txt: cannot be read: No such file");
  refused("snapkv:keep=30%", "100,100", 1, "2 numbers; expected");
  refused("snapkv:keep=30%,allocation=ada", "100,100", 1, "allocation=uniform");
}

TEST_CASE("The shares of a hybrid study divide a budget as a file of the same numbers does, and keep its sum") {
  if (!has_sample()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string study = (folder / "hybrid.h5").string(), file = (folder / "b.txt").string();
  const ModelConfig model = ModelConfig::load(test::sample_model());
  const std::size_t n = static_cast<std::size_t>(model.n_layers * model.n_kv_heads);
  StudyTable table{.kind = "hybrid", .request = "{}", .facts = "{}"};
  table.columns = {{.name = "point", .is_text = true, .texts = {"dense", "budgets:2", "budgets:3"}},
                   {.name = "strategy", .is_text = true, .texts = {"dense", "budgets", "budgets"}}};
  StudyArray budget{.name = "budget",
                    .axes = {"point", "layer", "kv_head"},
                    .shape = {3, model.n_layers, model.n_kv_heads},
                    .values = std::vector<double>(3 * n, std::numeric_limits<double>::quiet_NaN())};
  for (std::size_t i = 0; i < n; ++i) budget.values[n + i] = 0.25, budget.values[2 * n + i] = i == 0 ? 1 : 0.1;
  table.arrays = {budget};
  write_study(study, table, true);
  // By hand: 20 of each of the n heads' 40 tokens are shared out, the first head's share is ten of n + 9 tenths.
  const double unit = 20.0 * static_cast<double>(n) / (static_cast<double>(n) + 9);
  const std::string policy = "h2o:budget=40,window=20,sinks=0";
  const auto budgets = [&](const std::string& source) {
    const auto result = run(policy, {"--budgets", source, "--json"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return json::parse(result.out.substr(result.out.rfind("\n{") + 1))["budgets"].get<std::vector<std::int32_t>>();
  };
  const std::vector<std::int32_t> skewed = budgets(study + "#budgets:3");
  CHECK(std::accumulate(skewed.begin(), skewed.end(), 0) == 40 * static_cast<int>(n));
  CHECK(std::abs(skewed[0] - (20 + 10 * unit)) <= 1);
  for (std::size_t i = 1; i < n; ++i) CHECK(std::abs(skewed[i] - (20 + unit)) <= 1);
  CHECK(budgets(study + "#budgets:2").empty());  // equal shares: one budget for all heads
  const auto refused = [&](const std::string& source, const std::string& under, const std::string& reason) {
    const auto result = run(under, {"--budgets", source});
    CHECK(result.exit_code == 1);
    CHECK(test::count_lines(result.err) == 1);
    CHECK_THAT(result.err, Catch::Contains(reason));
  };
  refused(study, policy, "2 points with budgets");
  refused(study + "#budgets:9", policy, "no point budgets:9; expected " + study + "#POINT, with a point of budgets:2");
  refused(study + "#budgets:3", "h2o:keep=40%,window=20", "a policy with one budget per head in tokens");
  table.arrays[0].values[n] = -1;
  write_study(study, table, true);
  const auto negative = run(policy, {"--budgets", study + "#budgets:2"});
  CHECK(negative.exit_code == 2);
  CHECK_THAT(negative.err, Catch::Contains("hybrid.h5: budget: -1; expected shares of at least 0"));
}

TEST_CASE("The program decodes under given budgets, keeps them, copies them with the command and gives them up") {
  if (!has_sample()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  test::Program program("exec " + test::real_engine().string());
  app::Session& session = program.session;
  session.model().open(test::sample_model().string());
  test::poll_until(
      session, [&] { return test::has_model(session); }, 120);
  const ModelInfo model = *session.engine().model();
  std::string text;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    for (int head = 0; head < model.n_kv_heads; ++head) text += std::to_string(24 + 4 * layer + head) + " ";
    text += "\n";
  }
  std::ofstream(folder / "b.txt") << text;
  session.next_run().set_prompt(
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
      "fifteen sixteen seventeen eighteen nineteen twenty");
  session.next_run().set_max_tokens(4);
  session.policy().set(PolicySpec::parse("h2o:budget=30,window=8"));
  CHECK_THROWS_AS(program.commands.execute("policy.budgets", {{"text", "a b"}}), Error);
  program.commands.execute("policy.budgets", {{"path", (folder / "b.txt").string()}});
  session.start_run();
  test::poll_until(
      session, [&] { return !session.run_in_progress(); }, 120);
  const RunRecord& run = *session.runs().a()->run;
  REQUIRE(run.status == RunStatus::complete);
  CHECK(run.geometry(1, 0).budget() == 28);
  CHECK(session.policy().is_of(run));
  CHECK_THAT(program.commands.execute("run.copy_command").get<std::string>(), Catch::Contains(" --budgets 24,"));
  program.commands.execute("policy.one_budget");
  CHECK(session.parameters().budgets.empty());
  CHECK_FALSE(session.policy().is_of(run));
  session.start_run();
  test::poll_until(
      session, [&] { return !session.run_in_progress(); }, 120);
  CHECK(session.runs().a()->run->heads.empty());
}

// kvscope sweep as a program: what it writes follows from its answers, whatever stopped it and whoever gave them.

#include <fstream>

#include "tests/app/sweep_support.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

/// Of the file of answers, by hand: group, item and policy -> index -> answer.
std::map<std::string, std::map<int, json>> answers_by_row(const fs::path& path) {
  std::map<std::string, std::map<int, json>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json value = json::parse(line);
    if (!value.contains("answer")) continue;
    const json& answer = value["answer"];
    rows[json{value["group"], answer["item"], answer["policy"]}.dump()][answer["index"].get<int>()] = answer;
  }
  return rows;
}

std::string group_of(const StudyTable& table, std::size_t row) {
  const double chunk = table.numbers("chunk", "")[row], seed = table.numbers("seed", "")[row];
  return std::isnan(chunk) ? "tasks, seed " + std::to_string(static_cast<int>(seed))
                           : "texts, chunk " + std::to_string(static_cast<int>(chunk));
}

bool is_near(double a, double b) { return std::abs(a - b) < 1e-12 * (1 + std::abs(b)); }

void check_text_row(const StudyTable& table, std::size_t row, const std::map<int, json>& own,
                    const std::map<int, json>& dense) {
  double sum = 0, difference = 0, squares = 0;
  for (const auto& [index, answer] : own) {
    const double nll = answer["nll"].get<double>(), more = nll - dense.at(index)["nll"].get<double>();
    sum += nll, difference += more, squares += more * more;
    CHECK(is_near(table.array("piece_nll")->values[row * 3 + static_cast<std::size_t>(index)], nll));
  }
  const double se = std::sqrt(std::max(0.0, (squares - difference * difference / 3) / 2) / 3);
  CHECK(is_near(table.numbers("nll", "")[row], sum / 3));
  CHECK(is_near(table.numbers("nll_difference", "")[row], difference / 3));
  CHECK(table.numbers("nll_difference_se", "")[row] == Approx(se).margin(1e-8));
  CHECK(table.numbers("nll_difference_high", "")[row] == Approx(difference / 3 + 4.30265 * se).margin(1e-8));
  CHECK(is_near(table.numbers("perplexity", "")[row], std::exp(sum / 3)));
  CHECK(std::isnan(table.numbers("accuracy", "")[row]));
}

void check_task_row(const StudyTable& table, std::size_t row, const std::map<int, json>& own,
                    const std::map<int, json>& dense) {
  int right = 0, dense_right = 0;
  for (const auto& [index, answer] : own) right += answer["is_right"].get<bool>();
  for (const auto& [index, answer] : dense) dense_right += answer["is_right"].get<bool>();
  CHECK(table.numbers("accuracy", "")[row] == right / 4.0);
  CHECK(table.numbers("accuracy_low", "")[row] <= right / 4.0);
  CHECK(table.numbers("accuracy_relative", "")[row] == Approx(static_cast<double>(right) / dense_right));
  CHECK(std::isnan(table.numbers("nll", "")[row]));
}

/// The definition, over the rows of the same questions.
bool is_on_front(const StudyTable& table, std::size_t i) {
  const auto loss = [&](std::size_t row) {
    const double nll = table.numbers("nll", "")[row];
    return std::isnan(nll) ? -table.numbers("accuracy", "")[row] : nll;
  };
  const auto& cost = table.numbers("cache_size", "");
  for (std::size_t j = 0; j < table.n_points(); ++j) {
    if (group_of(table, i) != group_of(table, j) || table.texts("item", "")[i] != table.texts("item", "")[j]) continue;
    if (cost[j] <= cost[i] && loss(j) <= loss(i) && (cost[j] < cost[i] || loss(j) < loss(i))) return false;
  }
  return true;
}

/// As much slower as a sanitizer makes everything else, so that what is interrupted after a while has not ended by then.
std::string slow_engine(int ms_a_token) {
  return fake_engine().string() + " --slow " + std::to_string(ms_a_token * kSlowdown);
}

}  // namespace

TEST_CASE("the rows of a sweep are what its answers say, with front and matched values by definition", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  const Sweep sweep{folder};
  const auto result = sweep.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const StudyTable table = sweep.study();
  CHECK(table.kind == "sweep");
  REQUIRE(table.n_points() == kRows);
  const auto answers = answers_by_row(folder / "s.h5.answers");
  int n_knees = 0;
  for (std::size_t row = 0; row < table.n_points(); ++row) {
    const std::string &item = table.texts("item", "")[row], &policy = table.texts("policy", "")[row];
    CAPTURE(row, item, policy);
    const std::string& gate = table.texts("gate", "")[row];
    const std::string group = group_of(table, row) + (gate.empty() ? "" : ", gate " + gate);
    const auto& own = answers.at(json{group, item, policy}.dump());
    const auto& dense = answers.at(json{group_of(table, row), item, "full"}.dump());
    const bool is_text = item != "needle";
    REQUIRE(own.size() == (is_text ? 3u : 4u));
    CHECK(table.numbers("n", "")[row] == static_cast<double>(own.size()));
    is_text ? check_text_row(table, row, own, dense) : check_task_row(table, row, own, dense);
    // 6 layers, 4 KV heads of 64, float32
    CHECK(is_near(table.numbers("cache_bytes", "")[row], own.at(0)["density"].get<double>() * 64 * 2 * 6 * 4 * 64 * 4));
    CHECK((table.numbers("on_front", "")[row] == 1) == is_on_front(table, row));
    n_knees += table.numbers("is_knee", "")[row] == 1;
    if (table.numbers("is_knee", "")[row] == 1) CHECK(table.numbers("on_front", "")[row] == 1);
  }
  CHECK(n_knees >= 1);
  CHECK(n_knees <= 6);  // at most one for each text and chunk, task and seed
  const StudyArray *value = table.array("matched_value"), *more = table.array("matched_difference");
  REQUIRE(value->shape ==
          std::vector<std::int64_t>{6 * 6, 2});  // curves: random, h2o at three windows, streaming, two gates
  const auto& series = table.numbers("series", "");
  for (std::size_t row = 0, dense = 0; row < table.n_points(); ++row) {
    if (std::isnan(series[row])) dense = row;
    if (std::isnan(series[row]) || table.texts("item", "")[row] == "needle") continue;
    const auto at = static_cast<std::size_t>(series[row]) * 2;
    if (std::isnan(value->values[at])) continue;
    CHECK(is_near(more->values[at], value->values[at] - table.numbers("nll", "")[dense]));
  }
  const std::string csv = read_text(folder / "s.csv");
  CHECK(csv == study_csv(table));
  CHECK(result.out.find("a.txt, length 64, chunk 16\n") != std::string::npos);
  CHECK(result.out.find("at matched cost") != std::string::npos);
}

TEST_CASE("a sweep of several lengths is one sweep of each, with the averages of its tasks", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = {{"model", sample_model().string()},
                 {"tasks", {"needle", "passkey", "variables"}},
                 {"questions", 5},
                 {"policies", {"h2o:keep=50%,window=4", {{"policy", "wg-kv:window=8"}, {"gates", {"x", "y"}}}}}};
  std::map<int, StudyTable> alone;
  for (const int length : {128, 256}) {
    recipe["length"] = length;
    write_recipe(folder, recipe, std::to_string(length) + ".json");
    const Sweep one{
        .folder = folder, .name = std::to_string(length) + ".h5", .recipe = std::to_string(length) + ".json"};
    REQUIRE(one.run().exit_code == 0);
    alone.emplace(length, one.study());
  }
  recipe["length"] = {128, 256};
  write_recipe(folder, recipe);
  const auto result = Sweep{folder}.run();
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const StudyTable table = Sweep{folder}.study();
  REQUIRE(table.n_points() == 2 * 3 * 4);
  for (std::size_t row = 0; row < table.n_points(); ++row) {
    const int length = row < 12 ? 128 : 256;
    const std::size_t there = row % 12;
    CAPTURE(row);
    CHECK(table.numbers("length", "")[row] == length);
    for (const char* column : {"accuracy", "cache_size", "density", "on_front", "accuracy_relative"}) {
      const double a = table.numbers(column, "")[row], b = alone.at(length).numbers(column, "")[there];
      CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    }
    CHECK(table.texts("gate", "")[row] == alone.at(length).texts("gate", "")[there]);
  }
  const auto& accuracy = table.numbers("accuracy", "");
  for (const std::size_t first : {0, 12}) {
    char line[64];
    std::snprintf(line, sizeof line, "average of 3 tasks, length %d, seed 1\n", first == 0 ? 128 : 256);
    const std::size_t at = result.out.find(line);
    REQUIRE(at != std::string::npos);
    std::snprintf(line, sizeof line, "%.3f", (accuracy[first + 1] + accuracy[first + 5] + accuracy[first + 9]) / 3);
    const std::size_t row = result.out.find("h2o:keep=50%,window=4", at);
    CHECK(result.out.substr(row, result.out.find('\n', row) - row).find(line) != std::string::npos);
  }
  // Half of it again, and the list grows: only the new length is asked.
  recipe["length"] = {128, 256, 512};
  write_recipe(folder, recipe);
  REQUIRE(Sweep{.folder = folder, .options = {"--overwrite"}}.run().exit_code == 0);
  CHECK(Sweep{folder}.study().n_points() == 3 * 3 * 4);
}

TEST_CASE("a sweep measures an entry of another model beside the dense policy of its own, and goes on", "[sweep]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "other");
  fs::copy(sample_model(), folder / "other", fs::copy_options::recursive);
  json recipe = {{"model", sample_model().string()},
                 {"tasks", {"needle"}},
                 {"questions", 4},
                 {"policies", {"tova:keep=25%", {{"policy", "tova:keep=25%"}, {"model", "other"}}}}};
  write_recipe(folder, recipe);
  const auto result = Sweep{folder}.run();
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("tova:keep=25% (other)") != std::string::npos);
  const StudyTable table = Sweep{folder}.study();
  REQUIRE(table.n_points() == 3);
  CHECK(table.texts("model", "") == std::vector<std::string>{"", "", (folder / "other").string()});
  CHECK(json::parse(table.texts("asked", "")[2])["model"] == (folder / "other").string());
  recipe["policies"].push_back("tova:keep=50%");
  write_recipe(folder, recipe);
  const auto more = Sweep{.folder = folder, .options = {"--overwrite"}}.run();
  CAPTURE(more.err);
  REQUIRE(more.exit_code == 0);
  CHECK(Sweep{folder}.study().n_points() == 4);
}

TEST_CASE("a sweep compares gates with an adapter of the model beside those without, and goes on", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = {{"model", sample_model().string()},
                 {"tasks", {"needle"}},
                 {"questions", 4},
                 {"policies", {{{"policy", "wg-kv:window=8"}, {"gates", {"x", "with-adapter"}}}}}};
  write_recipe(folder, recipe);
  const auto result = Sweep{folder}.run();
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  recipe["policies"][0]["gates"].push_back("y");
  write_recipe(folder, recipe);
  const auto more = Sweep{.folder = folder, .options = {"--overwrite"}}.run();
  CAPTURE(more.err);
  REQUIRE(more.exit_code == 0);
  CHECK(Sweep{folder}.study().n_points() == 4);
  fs::create_directory(folder / "other");
  fs::copy(sample_model(), folder / "other", fs::copy_options::recursive);
  recipe["model"] = (folder / "other").string();
  write_recipe(folder, recipe);
  recipe["questions"] = 5;
  write_recipe(folder, recipe);
  const auto changed = Sweep{.folder = folder, .options = {"--overwrite"}}.run();
  CHECK(changed.exit_code == 1);
  CHECK(changed.err.find("weights_hash: answers of another sweep") != std::string::npos);
}

TEST_CASE("two engines, and three shards that are joined, give what one engine gives", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  const StudyTable whole = undisturbed_sweep(folder);
  const Sweep two{.folder = folder, .name = "two.h5", .options = {"--jobs", "2"}};
  CHECK(two.run().exit_code == 0);
  CHECK(study_difference(two.study(), whole) == "");
  for (const char* shard : {"0/3", "1/3", "2/3"}) {
    const auto result = Sweep{.folder = folder, .name = "parts.h5", .options = {"--shard", shard}}.run();
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(fs::exists(folder / "parts.h5"));
  }
  // One of them lies elsewhere, and no engine is needed any more.
  fs::create_directory(folder / "away");
  fs::rename(folder / "parts.h5.answers.1-of-3", folder / "away/one");
  const Sweep joined{.folder = folder,
                     .name = "parts.h5",
                     .options = {"--answers", (folder / "away/one").string()},
                     .engine = "/bin/false"};
  const auto result = joined.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(study_difference(joined.study(), whole) == "");
}

TEST_CASE("a sweep killed at random moments has each answer once in the end, and the undisturbed one's study",
          "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  const StudyTable whole = undisturbed_sweep(folder);
  const Sweep slow{.folder = folder, .options = {"--jobs", "2"}, .engine = slow_engine(10)};
  int n_between = 0;
  for (const double after : {0.05, 0.3, 0.0, 0.2, 0.4}) {
    const auto killed = after > 0 ? slow.run(after * kSlowdown) : slow.run_until_an_answer();
    if (killed.exit_code == 0) break;
    CHECK_FALSE(fs::exists(folder / "s.h5"));
    const auto n = answers_in(folder / "s.h5.answers").size();
    n_between += n > 0 && n < 300;
  }
  CHECK(n_between >= 1);
  const auto result = Sweep{folder}.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto answers = answers_in(folder / "s.h5.answers");
  CHECK(answers.size() == kAnswers);
  for (const auto& [key, n] : answers) CHECK((key + " " + std::to_string(n)) == key + " 1");
  CHECK(study_difference(Sweep{folder}.study(), whole) == "");
  // Killed between the table and the study: what is answered is not asked again, and no --overwrite is needed.
  fs::remove(folder / "s.h5");
  const auto again = Sweep{.folder = folder, .engine = "/bin/false"}.run();
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(study_difference(Sweep{folder}.study(), whole) == "");
}

TEST_CASE("Ctrl+C leaves a sweep's answers, a dead engine too, and run the same command to continue", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  const StudyTable whole = undisturbed_sweep(folder);
  const auto interrupted = Sweep{.folder = folder, .engine = slow_engine(5)}.run_interrupted_at_an_answer();
  CAPTURE(interrupted.err);
  CHECK(interrupted.exit_code == 130);
  const auto n = answers_in(folder / "s.h5.answers").size();
  CHECK(n >= 1);
  CHECK(n < kAnswers);
  CHECK(interrupted.err.find("run the same command to continue") != std::string::npos);
  const auto died = Sweep{.folder = folder, .engine = fake_engine().string() + " --die-at-token 20"}.run();
  CAPTURE(died.err);
  CHECK(died.exit_code == 3);
  CHECK(died.err.find("error: engine: it stopped") != std::string::npos);
  CHECK(answers_in(folder / "s.h5.answers").size() >= n + 19);
  CHECK(Sweep{folder}.run().exit_code == 0);
  CHECK(study_difference(Sweep{folder}.study(), whole) == "");
}

TEST_CASE("a recipe that grows asks for what is new: other settings and changed texts are refused", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = usual_recipe();
  write_recipe(folder, recipe);
  CHECK(Sweep{folder}.run().exit_code == 0);
  const std::string answers = read_text(folder / "s.h5.answers"), study = read_text(folder / "s.h5");
  const auto again = Sweep{folder}.run();
  CHECK(again.exit_code == 2);  // it is there
  CHECK(again.err.find("--overwrite") != std::string::npos);
  recipe["policies"].push_back("tova:keep=50%");
  write_recipe(folder, recipe);
  const Sweep over{.folder = folder, .options = {"--overwrite"}};
  CHECK(over.run().exit_code == 0);
  CHECK(over.study().n_points() == kRows + 6);
  CHECK(read_text(folder / "s.h5.answers").starts_with(answers));
  CHECK(answers_in(folder / "s.h5.answers").size() == kAnswers + 20);
  const std::string before = read_text(folder / "s.h5");
  std::ofstream(folder / "a.txt") << "a changed text";
  recipe["policies"].push_back("tova:keep=25%");
  std::ofstream(folder / "r.json") << recipe.dump();
  const auto changed = over.run();
  CAPTURE(changed.err);
  CHECK(changed.exit_code == 1);
  CHECK(changed.err.find("inputs: answers of another sweep: \"a.txt") != std::string::npos);
  recipe["length"] = 128;
  write_recipe(folder, recipe);
  const auto other = over.run();
  CAPTURE(other.err);
  CHECK(other.exit_code == 1);
  CHECK(count_lines(other.err) == 1);
  CHECK(other.err.find("length: answers of another sweep: 0; expected 128") != std::string::npos);
  CHECK(read_text(folder / "s.h5") == before);
  CHECK(before != study);
}

TEST_CASE("a sweep refuses targets and options before its engine starts, and what the engine refuses writes nothing",
          "[sweep]") {
  const TemporaryFolder folder;
  json recipe = usual_recipe();
  write_recipe(folder, recipe);
  const auto refused = [&](const Sweep& sweep, int code, const std::string& says) {
    const auto result = sweep.run();
    CAPTURE(result.err);
    CHECK(result.exit_code == code);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(says) != std::string::npos);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);
  };
  const std::string none = "/bin/false";
  refused({.folder = folder, .name = "", .engine = none}, 1, "no -o FILE.h5");
  refused({.folder = folder, .name = "s.csv", .engine = none}, 1, "a name that ends in .h5");
  refused({.folder = folder, .name = "away/s.h5", .engine = none}, 2, "away");
  refused({.folder = folder, .options = {"--shard", "3/3"}, .engine = none}, 1, "I/N with I from 0 to N - 1");
  refused({.folder = folder, .options = {"--jobs", "0"}, .engine = none}, 1, "--jobs");
  recipe["policies"].push_back("h2o:budget=8,window=16");  // the fake engine's length is 64
  write_recipe(folder, recipe);
  refused({.folder = folder}, 1, "budget of 8 tokens");
}

TEST_CASE("a table that is not the sweep's own is never replaced, whatever is beside it", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  REQUIRE(Sweep{folder}.run().exit_code == 0);
  const std::string table = read_text(folder / "s.csv");
  fs::remove(folder / "s.h5");
  for (const std::string& text : {table + "# mine\n", std::string("mine\n"), std::string()}) {
    std::ofstream(folder / "s.csv", std::ios::trunc) << text;
    const Result refused = Sweep{folder}.run();
    CAPTURE(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("s.csv: it exists; hint: --overwrite replaces it") != std::string::npos);
    CHECK(read_text(folder / "s.csv") == text);
    CHECK_FALSE(fs::exists(folder / "s.h5"));
  }
  std::ofstream(folder / "s.csv", std::ios::trunc) << table;  // as a kill between the two files leaves it
  CHECK(Sweep{folder}.run().exit_code == 0);
  CHECK(fs::exists(folder / "s.h5"));
  CHECK(read_text(folder / "s.csv") == table);
}

TEST_CASE("a line that no sweep has written is refused by its number in a file of answers", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  REQUIRE(Sweep{folder}.run().exit_code == 0);
  const fs::path answers = folder / "s.h5.answers";
  const std::string whole = read_text(answers);
  const std::size_t at = whole.find("\n", whole.find("\"answer\":")) + 1, begin = whole.rfind('\n', at - 2) + 1;
  const std::string line = whole.substr(begin, at - begin);
  json other = json::parse(line), less = other;
  other["note"] = 1;
  less["answer"].erase("nll");
  for (const std::string& added : {std::string("{}\n"), line, other.dump() + "\n", less.dump() + "\n",
                                   whole.substr(0, whole.find('\n') + 1), std::string("{\"group\": \"x\"}\n")}) {
    std::ofstream(answers, std::ios::trunc) << whole << added;
    Sweep again{folder};
    again.options = {"--overwrite"};
    const Result refused = again.run();
    CAPTURE(added, refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("s.h5.answers, line " + std::to_string(count_lines(whole) + 1)) != std::string::npos);
    CHECK(refused.err.find("hint: remove that line") != std::string::npos);
  }
}

TEST_CASE("a dry run says points and an estimate from measured answers, and writes nothing", "[sweep]") {
  const TemporaryFolder folder;
  write_recipe(folder, usual_recipe());
  const Sweep sweep{
      .folder = folder, .options = {"--dry-run", "--json"}, .engine = fake_engine().string() + " --slow 20"};
  const auto result = sweep.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json said = json::parse(result.out);
  CHECK(said["points"].size() == kPolicies - 1);
  CHECK(said["points"][1]["policy"] == "h2o:keep=75%,window=4");
  CHECK(said["answers"] == kAnswers);
  CHECK(said["measured"].size() == 8);  // two policies in two chunks and two seeds
  CHECK(said["seconds_of_one_engine"] > kAnswers * 0.018);
  CHECK(said["seconds_of_one_engine"] < kAnswers * 0.02 * 20);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);
  REQUIRE(Sweep{folder}.run().exit_code == 0);
  CHECK(said["study_bytes"].get<double>() == Approx(fs::file_size(folder / "s.h5")).epsilon(0.1));
  // With -o it says what is there already, without it there is no sweep of which anything could be.
  const auto after = Sweep{.folder = folder, .options = {"--dry-run", "--json", "--overwrite"}}.run();
  CHECK(json::parse(after.out)["done"] == kAnswers);
  const auto apart = Sweep{.folder = folder, .name = "", .options = {"--dry-run", "--json"}}.run();
  CHECK(json::parse(apart.out)["done"] == 0);
  CHECK(said["answers_bytes"].get<double>() == Approx(fs::file_size(folder / "s.h5.answers")).epsilon(0.3));
}

TEST_CASE("a sweep of the sample model under a gate: two engines as one, inspect and --json say the same", "[sweep]") {
  if (real_engine().empty() || !fs::exists(sample_model() / "model.safetensors"))
    return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const json recipe = {{"model", sample_model().string()},
                       {"texts", {"long.txt"}},
                       {"pieces", 2},
                       {"length", 128},
                       {"device", "cpu"},
                       {"oracle", true},
                       {"policies", {{{"policy", "wg-kv:window=16"}, {"axes", {{"threshold", {0.01, 0.5}}}}}}}};
  write_recipe(folder, recipe);
  std::ofstream(folder / "long.txt") << read_text(source_folder() / "samples/prompts/heldout.txt").substr(0, 4000);
  const Sweep one{.folder = folder, .options = {"--json"}, .engine = ""};
  const auto result = one.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Sweep two{.folder = folder, .name = "two.h5", .options = {"--jobs", "2", "--quiet"}, .engine = ""};
  REQUIRE(two.run().exit_code == 0);
  const StudyTable table = one.study();
  CHECK(study_difference(two.study(), table, 1e-5) == "");
  REQUIRE(table.n_points() == 3);
  CHECK(table.texts("gate", "")[0].empty());
  CHECK(table.texts("gate", "")[1].find("wg-kv") != std::string::npos);
  CHECK(table.numbers("density", "")[0] == 1);
  CHECK(table.numbers("density", "")[1] > table.numbers("density", "")[2]);
  CHECK(table.numbers("nll_difference", "")[2] > 0);
  CHECK(table.numbers("cache_tokens", "")[0] == Approx(128));
  CHECK(table.numbers("cache_bytes", "")[0] == Approx(128.0 * 2 * 6 * 4 * 64 * 4));
  CHECK(table.numbers("mass_recall", "")[2] > table.numbers("recall", "")[2]);
  const json said = json::parse(result.out);
  CHECK(said["points"][2]["nll"].get<double>() == table.numbers("nll", "")[2]);
  const auto inspected = kvscope_run({"inspect", (folder / "s.h5").string(), "--json"});
  const json facts = json::parse(inspected.out);
  CHECK(facts["study"] == "sweep");
  CHECK(facts["points"] == 3);
  CHECK(facts["request"] == recipe);
  CHECK(facts["columns"].contains("nll_difference_se"));

  // The dense policy loads no gate, so that it has a group of its own; the estimate is of all groups.
  const auto dry = Sweep{.folder = folder, .name = "", .options = {"--dry-run", "--json"}, .engine = ""}.run();
  INFO(dry.err);
  const json estimate = json::parse(dry.out);
  REQUIRE(estimate["measured"].size() == 2);
  CHECK(estimate["measured"][0]["policy"] == "full");
  CHECK(estimate["measured"][1]["policy"] == "wg-kv:window=16,threshold=0.01");
  const auto seconds = [&](int i) { return estimate["measured"][i]["seconds"].get<double>(); };
  CHECK(estimate["seconds_of_one_engine"].get<double>() ==
        Approx(2 * seconds(0) + 4 * seconds(1) + 2 * estimate["load_seconds"].get<double>()));
}

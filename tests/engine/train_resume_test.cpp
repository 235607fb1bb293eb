// A training that is stopped at any moment goes on to what it would have been: same parameters, bit for bit, and same curve.

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "tests/engine/train_support.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

using test::kModel, test::kText;
const fs::path kPalindrome = test::in_source("samples/recipes/palindrome");

nlohmann::json gate_recipe(const std::string& method) {
  const char* weight = method == "sp-kv" ? "price" : "weight";
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 48}, {"facts_share", 0}}},
          {"gate",
           {{"method", method},
            {"window", 16},
            {"batch", 1},
            {"log_every", 2},
            {"learning_rate", 1e-2},
            {"stages", {{{weight, 0.5}, {"steps", 5}}, {{weight, 0.7}, {"steps", 3}}}}}}};
}

nlohmann::json kvzap_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "repeat"}, {"length", 96}}},
          {"gate",
           {{"method", "kvzap"},
            {"hidden", 8},
            {"positions", 20},
            {"steps", 7},
            {"batch", 1},
            {"log_every", 2},
            {"heldout_sequences", 2}}}};
}

nlohmann::json scorer_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
          {"scorer",
           {{"steps", 7},
            {"batch", 1},
            {"window", 8},
            {"top_k", {16, 32}},
            {"queries", 8},
            {"log_every", 2},
            {"heldout_sequences", 1}}}};
}

/// With the base trained along: SP-KV with its hard end, KVpop's Algorithm 1.
nlohmann::json joint_gate_recipe() {
  nlohmann::json recipe = gate_recipe("sp-kv");
  recipe["gate"].update({{"adapter", {{"rank", 2}}}, {"hard_share", 0.4}, {"anneal", 2}, {"sampled", true}});
  recipe["gate"]["stages"] = {{{"price", 0.5}, {"steps", 5}}};
  return recipe;
}

nlohmann::json joint_scorer_recipe() {
  nlohmann::json recipe = scorer_recipe();
  recipe["scorer"].update({{"adapter", {{"rank", 2}, {"targets", {"q_proj", "v_proj"}}}},
                           {"steps", 5},
                           {"output_weight", 1},
                           {"output_after", 2}});
  return recipe;
}

/// A model from nothing with its gate. The key "model" tells arguments() that there is no base.
nlohmann::json nothing_recipe() {
  nlohmann::json recipe = gate_recipe("sp-kv");
  recipe["model"] = {{"layers", 1},   {"hidden", 16}, {"heads", 2},       {"kv_heads", 1},
                     {"head_dim", 8}, {"ffn", 16},    {"vocabulary", 576}};
  recipe["data"] = {{"kind", "palindrome"}, {"numbers", 2}, {"length", 72}};
  recipe["gate"].update({{"all_weights", true}, {"hidden", 4}, {"hard_share", 0.4}});
  recipe["gate"]["stages"] = {{{"price", 0.1}, {"steps", 7}}};
  return recipe;
}

nlohmann::json joint_all_recipe() {
  nlohmann::json recipe = scorer_recipe();
  recipe["scorer"].update({{"all_weights", true}, {"kl_weight", 0.5}, {"steps", 5}});
  return recipe;
}

nlohmann::json through_recipe() {
  nlohmann::json recipe = scorer_recipe();
  recipe["scorer"].update({{"output_weight", 1}, {"output_after", 2}, {"steps", 5}});
  return recipe;
}

nlohmann::json arguments(const nlohmann::json& recipe, const fs::path& output) {
  const bool from_nothing = recipe.contains("model");
  return {{"recipe", recipe},
          {"base", from_nothing ? "" : kModel.string()},
          {"data", from_nothing ? kPalindrome.string() : kText.string()},
          {"output", output.string()},
          {"device", "cpu"},
          {"threads", 1},
          {"checkpoint_seconds", 0}};
}

/// The curves of a job by name, with the columns that are no times.
struct Curves {
  std::map<std::string, nlohmann::json> rows;
  explicit Curves(JobContext& context) {
    context.curve = [this](const nlohmann::json& told) {
      nlohmann::json& curve = rows[told["name"]];
      if (told["first"] == 0) curve = nlohmann::json::array();
      REQUIRE(told["first"] == curve.size());
      for (const nlohmann::json& row : told["rows"]) {
        REQUIRE(row.size() == told["columns"].size());
        curve.emplace_back(row.begin(), row.end() - 2);
      }
    };
  }
};

/// Trains; after each logged step the folder, as a power cut would leave it, is copied beside it.
std::vector<fs::path> train_with_snapshots(const nlohmann::json& args, JobContext context = {}) {
  const fs::path output = args["output"].get<std::string>();
  std::vector<fs::path> snapshots;
  context.row = [&](const std::string&, const nlohmann::json&) {
    snapshots.push_back(output.string() + "-" + std::to_string(snapshots.size()));
    fs::copy(output, snapshots.back(), fs::copy_options::recursive);
  };
  train_job(args, context);
  return snapshots;
}

/// Every file's bytes by name; not training.json, which has times.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (!entry.is_regular_file() || name == "training.json") continue;
    files[name] = read_file(entry.path(), 1u << 26);
  }
  return files;
}

std::string error_of(const nlohmann::json& args) {
  JobContext context;
  try {
    train_job(args, context);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a training that was stopped at any logged step goes on to the same bytes and the same curve") {
  const auto recipe =
      GENERATE(gate_recipe("wg-kv"), gate_recipe("dms"), kvzap_recipe(), scorer_recipe(), joint_gate_recipe(),
               joint_scorer_recipe(), joint_all_recipe(), through_recipe(), nothing_recipe());
  const std::size_t step = recipe == gate_recipe("wg-kv") ? 2 : 3;
  const test::TempFolder scratch;
  JobContext undisturbed;
  const Curves curves(undisturbed);
  const std::vector<fs::path> snapshots = train_with_snapshots(arguments(recipe, scratch / "whole"), undisturbed);
  const auto whole = contents(scratch / "whole");
  REQUIRE(whole.size() >= 3);
  REQUIRE(snapshots.size() >= 4);
  for (std::size_t i = 0; i < snapshots.size(); i += step) {
    const fs::path& snapshot = snapshots[i];
    CAPTURE(snapshot);
    nlohmann::json args = arguments(recipe, snapshot);
    args["resume"] = true;
    JobContext context;
    const Curves resumed(context);
    CHECK(train_job(args, context)["status"] == "done");
    CHECK(resumed.rows == curves.rows);
    const auto found = contents(snapshot);
    REQUIRE(found.size() == whole.size());
    for (const auto& [name, bytes] : whole) {
      CAPTURE(name);
      CHECK(found.at(name) == bytes);
    }
  }
}

TEST_CASE("a training that is done says what it said, and is not done again") {
  const test::TempFolder scratch;
  nlohmann::json args = arguments(gate_recipe("wg-kv"), scratch / "out");
  JobContext context;
  const nlohmann::json first = train_job(args, context);
  CHECK_FALSE(fs::exists(scratch / "out/wg-kv-0.5.checkpoint"));
  args["resume"] = true;
  bool has_row = false;
  context.row = [&](const std::string&, const nlohmann::json&) { has_row = true; };
  CHECK(train_job(args, context) == first);
  CHECK_FALSE(has_row);
}

TEST_CASE("a training replaces another only when told, and goes on with its own recipe alone") {
  const test::TempFolder scratch;
  const fs::path folder = scratch / "out";
  nlohmann::json args = arguments(gate_recipe("wg-kv"), folder);
  const std::vector<fs::path> snapshots = train_with_snapshots(args);
  CHECK(error_of(args) == (folder / "training.json").string() +
                              ": it already holds a training; expected another folder, --resume or --overwrite");
  nlohmann::json other = arguments(gate_recipe("wg-kv"), folder);
  other["recipe"]["seed"] = 4;
  other["resume"] = true;
  CHECK(error_of(other).find("another training") != std::string::npos);
  other["output"] = snapshots[2].string();
  CHECK(error_of(other).find("a checkpoint of recipe") != std::string::npos);
  args["overwrite"] = true;
  CHECK(error_of(args) == "");
}

TEST_CASE("a folder of somebody else is left alone unless the training is told to write beside what is there") {
  const test::TempFolder scratch;
  const fs::path folder = scratch / "out";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << "mine";
  nlohmann::json args = arguments(gate_recipe("wg-kv"), folder);
  CHECK_THAT(error_of(args), Catch::Contains("other files") && Catch::Contains("--overwrite writes into it"));
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);
  nlohmann::json onto = args;
  onto["output"] = (folder / "config.json").string();
  CHECK_THAT(error_of(onto), Catch::Contains("a file; expected a new or empty folder"));
  args["overwrite"] = true;
  CHECK(error_of(args) == "");
  CHECK(read_file(folder / "config.json", 100) == "mine");
}

TEST_CASE("what a training said of itself and was damaged is refused in a line") {
  const test::TempFolder scratch;
  nlohmann::json args = arguments(gate_recipe("wg-kv"), scratch / "out");
  JobContext context;
  train_job(args, context);
  args["resume"] = true;
  const fs::path file = scratch / "out/training.json";
  const std::string whole = read_file(file, 1u << 20);
  for (const char* text : {"", "[]", R"({"identity": 3})", R"({"result": {}})"}) {
    std::ofstream(file) << text;
    CAPTURE(text);
    CHECK_THAT(error_of(args), Catch::StartsWith(file.string()));
  }
  std::ofstream(file) << nlohmann::json({{"identity", nlohmann::json::parse(whole)["identity"]}, {"result", 1}});
  CHECK_THAT(error_of(args), Catch::Contains("no result"));
}

TEST_CASE("a checkpoint that is damaged is refused, and its file stays") {
  const test::TempFolder scratch;
  nlohmann::json args = arguments(gate_recipe("wg-kv"), scratch / "out");
  const fs::path folder = train_with_snapshots(args)[2], checkpoint = folder / "wg-kv-0.5.checkpoint";
  args["output"] = folder.string();
  args["resume"] = true;
  const std::string bytes = read_file(checkpoint, 1u << 26);
  std::ofstream(checkpoint, std::ios::binary) << bytes.substr(0, bytes.size() - 100);
  CHECK(error_of(args).find("wg-kv-0.5.checkpoint") != std::string::npos);
  CHECK(fs::file_size(checkpoint) == bytes.size() - 100);
}

TEST_CASE("a loss that is no number ends the training in one line, and the last checkpoint is whole") {
  const test::TempFolder scratch;
  nlohmann::json recipe = gate_recipe("wg-kv");
  recipe["gate"]["learning_rate"] = 1;
  recipe["gate"]["warm_up"] = 0;
  recipe["gate"]["weight_decay"] = 10;  // a step multiplies the parameters by -9
  recipe["gate"]["log_every"] = 1;
  recipe["gate"]["stages"] = {{{"weight", 0.5}, {"steps", 120}}};
  nlohmann::json args = arguments(recipe, scratch / "out");
  const std::string line = error_of(args);
  CAPTURE(line);
  CHECK((line.find("not a number") != std::string::npos || line.find("not finite") != std::string::npos));
  CHECK(line.find("learning_rate") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
  args["resume"] = true;  // it comes to the same end, from a checkpoint that can be read
  CHECK(error_of(args) == line);
}

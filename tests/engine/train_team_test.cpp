// A training on several devices is the training on one: here the devices are threads of this processor.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/team.h"
#include "tests/engine/train_support.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

using test::kModel, test::kText;

/// SP-KV's loss is a mean over tokens, so that the mean of two halves is that of the whole.
nlohmann::json gate_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 64}, {"facts_share", 0}}},
          {"gate",
           {{"method", "sp-kv"},
            {"hidden", 8},
            {"window", 16},
            {"batch", 4},
            {"log_every", 1},
            {"warm_up", 2},
            {"learning_rate", 1e-2},
            {"adapter", {{"rank", 2}, {"targets", {"q_proj", "v_proj"}}}},
            {"stages", {{{"price", 0.5}, {"steps", 4}}, {{"price", 0.7}, {"steps", 2}}}}}}};
}

nlohmann::json kvzap_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "repeat"}, {"length", 96}}},
          {"gate",
           {{"method", "kvzap"},
            {"hidden", 8},
            {"positions", 20},
            {"steps", 6},
            {"batch", 4},
            {"log_every", 1},
            {"warm_up", 2},
            {"heldout_sequences", 2}}}};
}

nlohmann::json scorer_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
          {"scorer",
           {{"steps", 4},
            {"batch", 2},
            {"window", 8},
            {"top_k", {16, 32}},
            {"queries", 8},
            {"log_every", 1},
            {"heldout_sequences", 2}}}};
}

std::vector<double> losses_on(const std::string& devices, const nlohmann::json& recipe, const fs::path& output,
                              const char* column) {
  std::vector<double> losses;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) { losses.push_back(row.at(column)); };
  train_job({{"recipe", recipe}, {"base", kModel}, {"data", kText}, {"output", output}, {"device", devices}}, context);
  return losses;
}

void check_as_one(const nlohmann::json& recipe, const char* column, const fs::path& result, const std::string& devices,
                  const std::string& one_device) {
  const test::TempFolder scratch;
  const auto one = losses_on(one_device, recipe, scratch / "one", column),
             two = losses_on(devices, recipe, scratch / "two", column);
  losses_on(devices, recipe, scratch / "again", column);
  REQUIRE(one.size() == two.size());
  // The order of sums differs; bfloat16 keeps 8 bits of what is added up, and a step of Adam follows its sign.
  const double tolerance = one_device == "cpu" ? 2e-4 : 2e-2;
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(two[i] == Approx(one[i]).epsilon(tolerance));
  CHECK(two.back() != Approx(two.front()).epsilon(1e-3));  // something was learnt
  if (one_device != "cpu") return;                         // a GPU's own sums have no order
  CHECK(read_file(scratch / "two" / result, 1 << 24) == read_file(scratch / "again" / result, 1 << 24));
}

}  // namespace

TEST_CASE("two devices train a gate and an adapter as one does, and give the same bytes again") {
  check_as_one(gate_recipe(), "loss_all", "sp-kv-joint-0.7/adapter_model.safetensors", "cpu,cpu", "cpu");
}

TEST_CASE("two devices train a gate of KVzap as one does, and give the same bytes again") {
  check_as_one(kvzap_recipe(), "loss_all", "kvzap-mlp/gate.safetensors", "cpu,cpu", "cpu");
}

TEST_CASE("two devices train a scorer to the same losses again") {
  const test::TempFolder scratch;
  const auto one = losses_on("cpu,cpu", scorer_recipe(), scratch / "one", "loss_boundary"),
             two = losses_on("cpu,cpu", scorer_recipe(), scratch / "two", "loss_boundary");
  CHECK(one == two);
  CHECK(read_file(scratch / "one/kvpop-w8/gate.safetensors", 1 << 24) ==
        read_file(scratch / "two/kvpop-w8/gate.safetensors", 1 << 24));
}

TEST_CASE("on CUDA two members of a team train as one device does", "[cuda]") {
  if (!test::cuda_or_skip()) return;
  const bool several = training_devices("cuda:all").size() > 1;
  check_as_one(gate_recipe(), "loss_all", "", several ? "cuda:0,cuda:1" : "cuda:0,cuda:0", "cuda:0");
}

TEST_CASE("a team's mean is the same number at every member, whatever their order of coming") {
  Team team(3);
  std::vector<at::Tensor> sums = {at::full({5}, 1.0), at::full({5}, 2.5), at::full({5}, 7.0)};
  std::vector<double> agreed(3);
  std::vector<std::vector<double>> means(3);
  team.run([&](int member) {
    const auto i = static_cast<std::size_t>(member);
    for (int round = 0; round < 100; ++round) {
      team.average(member, sums[i]);
      agreed[i] = team.agree(member, member + round);
      means[i] = team.mean(member, {member * 3.0, 1});
    }
  });
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(at::equal(sums[i], at::full({5}, 3.5)));
    CHECK(agreed[i] == 99);
    CHECK(means[i] == std::vector<double>{3, 1});
  }
}

TEST_CASE("what one member of a team meets ends the training of all, and is what is told") {
  Team team(3);
  const auto work = [&](int member) {
    for (int step = 0;; ++step) {
      if (member == 2 && step == 5) throw Error({.where = "step 5", .found = "no room", .expected = "some"});
      team.agree(member, step);
    }
  };
  CHECK_THROWS_WITH(team.run(work), Catch::Contains("step 5"));
}

TEST_CASE("a batch that the devices cannot share is refused before a step") {
  const test::TempFolder scratch;
  CHECK_THROWS_WITH(losses_on("cpu,cpu,cpu", gate_recipe(), scratch / "out", "loss_all"),
                    Catch::Contains("3 devices for a batch of 4"));
  CHECK_THROWS_WITH(losses_on("cpu,gpu", gate_recipe(), scratch / "out", "loss_all"), Catch::Contains("gpu"));
}

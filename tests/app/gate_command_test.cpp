// kvscope gate convert, and what inspect says of what it wrote.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "tests/app/process.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;
using nlohmann::json;

namespace {

/// A head directory: layers 2, KV heads 2, the first head full.
GateFile heads_gate() {
  GateFile gate{.config = default_gate_config(GateKind::duo)};
  gate.dims = {.n_layers = 2, .n_kv_heads = 2};
  gate.tensors["alpha"] = {{2, 2}, {1, 0, 0.5f, 0.25f}};
  return gate;
}

void check_refused(const std::vector<std::string>& words, int exit_code, const std::string& contains) {
  const test::Result result = kvscope_run(words);
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

}  // namespace

TEST_CASE("gate convert writes any gate in our own format, with the numbers that were given") {
  const TemporaryFolder folder;
  const std::string to = (folder / "gate").string(), sample = test::sample_model().string();
  const GateFile source = load_gate(sample);
  const test::Result result = kvscope_run(
      {"gate", "convert", sample, "-o", to, "--threshold", "0.25", "--strict", "on", "--sinks", "8", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const GateFile gate = load_gate(to);
  CHECK(gate.format == "kvscope");
  CHECK(gate.tensors == source.tensors);
  GateConfig expected = source.config;
  expected.threshold = 0.25;
  expected.strict = true;
  expected.n_sink = 8;
  CHECK(gate.config == expected);
  CHECK(gate.description.ends_with("kept if score > 0.25"));
  const json inspected = json::parse(kvscope_run({"inspect", to, "--json"}).out);
  CHECK(inspected == json::parse(result.out));
  CHECK(inspected["kept_if"] == "score > threshold");
}

TEST_CASE("inspect says of a gate which defaults it sets of which policies") {
  const TemporaryFolder folder;
  const std::string to = (folder / "gate").string();
  REQUIRE(kvscope_run({"gate", "convert", test::sample_model().string(), "-o", to, "--sinks", "8"}).exit_code == 0);
  const json defaults = json::parse(kvscope_run({"inspect", to, "--json"}).out)["policy_defaults"];
  CHECK(defaults["kvpop"] == "sinks=8,window=64");
  CHECK(defaults["threshold"] == "threshold=0,strict=0,sinks=8,window=64");
  CHECK_FALSE(defaults.contains("sp-kv"));  // reads no such gate
  CHECK_FALSE(defaults.contains("streaming"));

  save_gate(folder / "heads", heads_gate());
  const json of_heads = json::parse(kvscope_run({"inspect", (folder / "heads").string(), "--json"}).out);
  CHECK(of_heads["policy_defaults"] == json{{"duo", "full=0.5,sinks=128,window=256"}});
}

TEST_CASE("gate convert refuses what makes no gate, in one line") {
  const TemporaryFolder folder;
  const std::string to = (folder / "gate").string(), sample = test::sample_model().string();
  check_refused({"gate", "covert", sample, "-o", to}, 1, "expected convert");
  check_refused({"gate", "convert", sample}, 1, "no -o DIR");
  check_refused({"gate", "convert", sample, "-o", to, "--strict", "maybe"}, 1, "expected on or off");
  // Its score is read 64 tokens later, when the token leaves the window.
  check_refused({"gate", "convert", sample, "-o", to, "--window", "32"}, 1, "--window: 32; expected 64");
  check_refused({"gate", "convert", (folder / "none").string(), "-o", to}, 2, "no such file or folder");
  CHECK_FALSE(std::filesystem::exists(to));
  REQUIRE(kvscope_run({"gate", "convert", sample, "-o", to}).exit_code == 0);
  check_refused({"gate", "convert", sample, "-o", to}, 2, "--overwrite replaces it");
  CHECK(kvscope_run({"gate", "convert", to, "-o", to, "--sinks", "2", "--overwrite"}).exit_code == 0);
  CHECK(load_gate(to).config.n_sink == 2);
}

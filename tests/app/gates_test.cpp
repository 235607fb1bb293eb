// Gates by name: what goes with a model, what --gate and a policy alone make of it, and the window's list of policies.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "app/session/obstacles.h"
#include "app/session/session.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/record/command_line.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"
#include "tests/app/window_driver.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// A gate with random weights, of the sample model's shape but for its head_dim if that is given.
GateFile random_gate(std::uint64_t seed, double threshold, int head_dim = 0) {
  const ModelConfig model = ModelConfig::load(test::sample_model());
  const std::int64_t l = model.n_layers, h = model.n_kv_heads, d = head_dim > 0 ? head_dim : model.head_dim, m = 8;
  GateFile gate{.config = default_gate_config(GateKind::wg_kv)};
  gate.config.n_hidden = static_cast<int>(m);
  gate.config.window = 16;
  gate.config.threshold = threshold;
  gate.dims = {.n_layers = l, .n_kv_heads = h, .head_dim = d};
  Random random(seed);
  const std::map<std::string, std::vector<std::int64_t>> shapes = {{"w1", {l, h, m, 2 * d}}, {"b1", {l, h, m}},
                                                                   {"w2", {l, h, m}},        {"b2", {l, h}},
                                                                   {"pre_norm", {l, d}},     {"post_norm", {l, d}}};
  for (const auto& [name, shape] : shapes) {
    GateTensor tensor{.shape = shape};
    std::size_t n = 1;
    for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
    for (std::size_t i = 0; i < n; ++i) tensor.values.push_back(static_cast<float>(random.normal()));
    gate.tensors[name] = std::move(tensor);
  }
  return gate;
}

/// Samples with the sample model, and with gates that come with it.
struct Samples {
  TemporaryFolder folder;
  Samples() {
    fs::create_directories(folder / "models");
    fs::create_directory_symlink(test::sample_model(), folder / "models/kvscope-tiny");
    const fs::path gates = folder / "gates/kvscope-tiny";
    fs::create_directories(gates);
    save_gate(gates / "a-half", random_gate(1, 0.5));
    save_gate(gates / "b-most", random_gate(2, 0.2));
    save_gate(gates / "c-foreign", random_gate(3, 0.5, 8));
    std::ofstream(gates / "README.md") << "no gate\n";
  }
  test::Result run(std::vector<std::string> words) const {
    words.insert(words.begin(), test::kvscope().string());
    return test::run({.argv = std::move(words), .environment = {{"KVSCOPE_SAMPLES", folder.path().string()}}});
  }
  std::string path(const std::string& name) const { return (folder / ("gates/kvscope-tiny/" + name)).string(); }
};

json by_name(const std::string& lines, const std::string& name) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    if (json::parse(line)["name"] == name) return json::parse(line);
  }
  return {};
}

/// A model's folder with two gates beside the weights.
void write_model_with_gates(const TemporaryFolder& folder) {
  test::link_sample_model(folder.path(), test::kWholeModel);
  save_gate(folder / "gates/a-half", random_gate(1, 0.5));
  save_gate(folder / "gates/b-most", random_gate(2, 0.2));
}

}  // namespace

TEST_CASE("gates lists what lies beside a model and what came with the program, and says what does not fit",
          "[gates]") {
  const Samples samples;
  const auto listed = samples.run({"gates", "kvscope-tiny", "--json"});
  INFO(listed.err);
  REQUIRE(listed.exit_code == 0);
  CHECK(test::count_lines(listed.out) == 6);
  const json own = by_name(listed.out, "kvpop-scorer");
  CHECK(own["kind"] == "kvpop_mlstm");
  CHECK(own["origin"] == "model");
  CHECK(own["policies"] == json{"kvpop"});
  CHECK(own["bytes"].get<std::uintmax_t>() ==
        fs::file_size(test::sample_model() / "kvpop_scorer.json") +
            fs::file_size(test::sample_model() / "kvpop_scorer.safetensors"));  // not the model's weights
  CHECK(own["kept_if_score"] == "window " + std::to_string(load_gate(test::sample_model()).config.window));
  const json shipped = by_name(listed.out, "a-half");
  CHECK(shipped["kind"] == "wg_kv");
  CHECK(shipped["origin"] == "shipped");
  CHECK(shipped["policies"] == json{"wg-kv"});
  CHECK(shipped["kept_if_score"] == "> 0.5, window 16");
  CHECK(shipped["fits"] == true);
  CHECK(shipped["bytes"].get<std::uintmax_t>() ==
        fs::file_size(samples.path("a-half/gate.json")) + fs::file_size(samples.path("a-half/gate.safetensors")));
  const json builtin = by_name(listed.out, "knorm");
  CHECK(builtin["origin"] == "builtin");
  CHECK(builtin["bytes"] == 0);
  CHECK(builtin["fits"] == true);
  CHECK(builtin["kept_if_score"] == "window 64");
  const json foreign = by_name(listed.out, "c-foreign");
  CHECK(foreign["fits"] == false);
  CHECK(foreign["kind"] == "wg_kv");
  CHECK(foreign["reason"].get<std::string>().find("head_dim") != std::string::npos);
  // By whatever path the model is named.
  const auto by_path = samples.run({"gates", (samples.folder / "models/../models/kvscope-tiny/").string(), "--json"});
  CHECK(test::count_lines(by_path.out) == 6);
  CHECK(by_name(by_path.out, "a-half") == shipped);
  const auto table = samples.run({"gates", "kvscope-tiny"});
  CHECK(table.out.find("c-foreign: ") != std::string::npos);
  CHECK(table.out.find("README") == std::string::npos);
}

TEST_CASE("a gate of DMS is listed with the window that its policy has: the tokens behind the query", "[gates]") {
  const auto listed = test::run({.argv = {test::kvscope().string(), "gates", "kvscope-tiny", "--json"}});
  REQUIRE(listed.exit_code == 0);
  const std::string decision = by_name(listed.out, "dms-0.6")["kept_if_score"];
  CHECK_THAT(decision, Catch::EndsWith(", window 64"));  // its file counts the query's own token too
}

TEST_CASE(
    "gates says whose budget is pooled and which gate has KVpop's published scorers, which its policy takes first",
    "[gates]") {
  const TemporaryFolder folder;
  const fs::path model = folder / "smollm2-135m";  // its shape, and no weights
  fs::create_directories(model);
  std::ofstream(model / "config.json")
      << R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":576,"intermediate_size":1536,)"
      << R"("num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"vocab_size":49152,"hidden_act":"silu",)"
      << R"("max_position_embeddings":8192,"rms_norm_eps":1e-5,"rope_theta":100000,"tie_word_embeddings":true,)"
      << R"("torch_dtype":"bfloat16"})";
  const auto listed = test::kvscope_run({"gates", model.string(), "--json"});
  INFO(listed.err);
  REQUIRE(listed.exit_code == 0);
  CHECK(by_name(listed.out, "kvpop-pooled")["kept_if_score"] == "window 64, pooled budget");
  CHECK(by_name(listed.out, "kvpop-mlstm")["kept_if_score"] == "window 64");
  std::istringstream lines(listed.out);
  std::string first;
  for (std::string line; first.empty() && std::getline(lines, line);) {
    const json gate = json::parse(line);
    if (gate["policies"] == json{"kvpop"} && gate["fits"] == true && gate["adapter"].is_null()) first = gate["name"];
  }
  CHECK(first == "kvpop-mlstm");
  const std::string table = test::kvscope_run({"gates", model.string()}).out;
  CHECK_THAT(table,
             Catch::Contains("\nkvpop-mlstm: KVpop's scorers as published (delayed mLSTM, one budget a head) on a "
                             "frozen base;"));
  CHECK_THAT(table, !Catch::Contains("\nkvpop-mlstm: KVpop as published"));
  CHECK_THAT(table, Catch::Contains("\nkvpop-pooled: not KVpop as published:"));
  const auto former =
      test::kvscope_run({"run", model.string(), "--prompt", "a", "--gate", "kvpop", "--policy", "kvpop:keep=50%"});
  CHECK(former.exit_code == 2);
  CHECK_THAT(former.err,
             Catch::Contains("--gate: \"kvpop\", a name that this gate no longer has; expected kvpop-pooled"));
  CHECK(test::count_lines(former.err) == 1);
}

TEST_CASE("a gate is taken by its name, and a policy alone takes the model's first gate that it reads and that fits",
          "[gates]") {
  if (test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const Samples samples;
  const auto last_line = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "run",    "kvscope-tiny", "--prompt",   "Numbers: 57 12 70. The end of the list is near.",
        "--json", "--max-tokens", "8",          "--device",
        "cpu",    "--quiet",      "--no-oracle"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = samples.run(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    json object = json::parse(result.out.substr(result.out.rfind('\n', result.out.size() - 2) + 1));
    object.erase("timings");
    return object;
  };
  const json alone = last_line({"--policy", "wg-kv"});
  CHECK(alone["policy"].get<std::string>().find("threshold=0.5") != std::string::npos);
  CHECK(alone == last_line({"--policy", "wg-kv", "--gate", "a-half"}));
  CHECK(alone == last_line({"--policy", "wg-kv", "--gate", samples.path("a-half")}));
  const json other = last_line({"--policy", "wg-kv", "--gate", "b-most"});
  CHECK(other["policy"].get<std::string>().find("threshold=0.2") != std::string::npos);
  CHECK(last_line({"--policy", "kvpop:budget=80"})["policy"].get<std::string>().starts_with("kvpop"));
}

TEST_CASE("a score that needs no training is a gate by its name, and no policy takes it unasked", "[gates]") {
  const auto described = test::kvscope_run({"inspect", "keydiff"});
  INFO(described.err);
  CHECK(described.exit_code == 0);
  CHECK(described.out.find("weightless") != std::string::npos);
  if (test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  for (const std::string name : {"knorm", "keydiff"}) {
    const std::string trace = (folder / (name + ".h5")).string();
    const auto run = test::kvscope_run({"run", "kvscope-tiny", "--prompt", "Numbers: 57 12 70. The end of the list.",
                                        "--policy", "top-k:budget=12,window=2,sinks=1", "--gate", name, "--max-tokens",
                                        "4", "--device", "cpu", "--quiet", "--no-oracle", "--trace", trace});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const auto shown = test::kvscope_run({"inspect", trace});
    CHECK(shown.out.find(", delay 0, gate " + name) != std::string::npos);
  }
  // Without weights beside the model a policy of any gate is refused, and the line names them.
  const TemporaryFolder bare;
  test::link_sample_model(bare.path(), test::kWholeModel);
  const auto none = test::kvscope_run({"run", bare.path().string(), "--prompt", "x", "--policy", "top-k", "--quiet"});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("knorm, keydiff") != std::string::npos);
}

TEST_CASE("the sample model comes with gates of WG-KV, SP-KV and DMS, small ones, and each policy alone takes its own",
          "[gates]") {
  const auto listed = test::run({.argv = {test::kvscope().string(), "gates", "kvscope-tiny", "--json"}});
  INFO(listed.err);
  REQUIRE(listed.exit_code == 0);
  std::map<std::string, std::string> names;  // of the first of each policy
  std::istringstream lines(listed.out);
  for (std::string line; std::getline(lines, line);) {
    const json gate = json::parse(line);
    if (gate["origin"] != "shipped") continue;
    CAPTURE(line);
    CHECK(gate["fits"] == true);
    CHECK(gate["bytes"].get<std::uint64_t>() < 200'000);
    names.emplace(gate["policies"].at(0).get<std::string>(), gate["name"].get<std::string>());
  }
  for (const char* policy : {"wg-kv", "sp-kv", "dms"}) REQUIRE(names.contains(policy));
  if (test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const std::string prompt = test::in_source("samples/prompts/1-reversal.txt");
  for (const auto& [policy, name] : names) {
    CAPTURE(policy, name);
    const auto score = [&](const std::string& by, std::vector<std::string> gate) {
      std::vector<std::string> words = {test::kvscope().string(),
                                        "score",
                                        "kvscope-tiny",
                                        "--text-file",
                                        prompt,
                                        "--policy",
                                        by,
                                        "--device",
                                        "cpu",
                                        "--json",
                                        "--quiet"};
      words.insert(words.end(), gate.begin(), gate.end());
      const auto result = test::run({.argv = words});
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
      return json::parse(result.out).at("nll");
    };
    const json alone = score(policy, {});
    // Of another process: on a GPU the library's products may add in another order there (4e-6 seen).
    CHECK(alone.get<double>() == Approx(score(policy, {"--gate", name}).get<double>()).margin(1e-5));
    CHECK(alone.get<double>() != Approx(score("full", {}).get<double>()).margin(1e-5));
  }
}

TEST_CASE("a policy without a gate, and a name that is none, say in one line what there is", "[gates]") {
  const Samples samples;
  const auto none = samples.run({"run", "kvscope-tiny", "--prompt", "x", "--policy", "sp-kv", "--quiet"});
  CAPTURE(none.err);
  CHECK(none.exit_code == 2);
  CHECK(test::count_lines(none.err) == 1);
  for (const char* part :
       {"no gate of kind sp_kv", "kvpop-scorer (kvpop_mlstm)", "a-half (wg_kv)", "docs/how-to/train-a-gate.md"}) {
    CHECK(none.err.find(part) != std::string::npos);
  }
  const auto wrong = samples.run({"score", "kvscope-tiny", "--text", "x", "--gate", "d-none", "--quiet"});
  CAPTURE(wrong.err);
  CHECK(wrong.exit_code == 2);
  CHECK(test::count_lines(wrong.err) == 1);
  CHECK(wrong.err.find("\"d-none\"") != std::string::npos);
  CHECK(wrong.err.find("b-most (wg_kv)") != std::string::npos);
}

// The engine was ready before its folder was looked into, and Run, or a script that had waited for the model, was told in
// the next frame that it was being loaded: with the gate that had been found.
TEST_CASE("No run may begin before the model's folder was looked for gates", "[gates]") {
  const TemporaryFolder folder;
  test::link_sample_model(folder.path(), test::kWholeModel);
  // The thread that reads folders stands still behind a job while it is held.
  std::atomic<std::thread::id> reader;
  std::atomic<bool> held = false, reads = false;
  app::Session session({.engine_command = "exec " + test::fake_engine().string(), .trace_program = {}, .wake = [&] {
                          if (std::this_thread::get_id() != reader) return;
                          while (held) std::this_thread::yield();
                          reads = true;
                        }});
  const std::shared_ptr<void> let_go(nullptr,
                                     [&](void*) { held = false; });  // before the session waits for its threads
  session.files().in_background("", [&]() -> app::Worker::Finish {
    reader = std::this_thread::get_id();
    return [] {};
  });
  test::poll_until(session, [&] { return reads.load(); });  // it is behind that job: the next one that wakes is held
  held = true;
  session.model().open(folder.path().string());
  // Behind the tokenizer, before the gates.
  test::poll_until(session, [&] { return session.engine().model() && !session.next_run().reads_tokenizer(); });
  session.next_run().set_prompt("One, two?");
  session.policy().set(PolicySpec::parse("full"));
  REQUIRE_FALSE(session.policy().gates().known());
  CHECK(app::why_not(session, app::RunKind::start) == "The model is loading.");
  CHECK(session.state()["engine"] == "loading");
  CHECK(session.state()["model"].is_null());  // scripts wait for it
  held = false;
  test::poll_until(session, [&] { return !session.state()["model"].is_null(); });
  CHECK(session.policy().gates().known());
  CHECK(app::why_not(session, app::RunKind::start).empty());
}

TEST_CASE("in a session a gate is chosen by name, and goes before the others of its kind", "[gates]") {
  const TemporaryFolder folder;
  write_model_with_gates(folder);
  app::Session session({.engine_command = "exec " + test::fake_engine().string(), .trace_program = {}, .wake = [] {}});
  const auto wait = [&](auto condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(25);
    while (!condition()) {
      session.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (std::chrono::steady_clock::now() > deadline) FAIL("timed out; state: " << session.state().dump());
    }
  };
  session.model().open(folder.path().string());
  wait([&] { return test::has_model(session); });
  CHECK(session.state()["gates"] == json{"a-half", "b-most", "knorm", "keydiff"});
  session.policy().set(PolicySpec::parse("wg-kv"));
  REQUIRE(session.policy().gate());
  CHECK(session.policy().gate()->gate.name == "a-half");
  CHECK(session.engine().gates_to_load().empty());  // the engine has it: nothing is loaded again
  session.policy().use_gate("b-most");
  CHECK(session.policy().gate()->gate.name == "b-most");
  wait([&] { return test::has_model(session); });
  CHECK(session.engine().gates_to_load() == std::vector{(folder / "gates/b-most").string()});
  CHECK(session.command_line().find(" --gate ") != std::string::npos);
  session.policy().use_gate("a-half");
  CHECK(session.engine().gates_to_load() == std::vector{(folder / "gates/a-half").string()});
  CHECK(test::error_of([&] { session.policy().use_gate("c"); }).find("a-half, b-most") != std::string::npos);
  session.policy().set(PolicySpec::parse("streaming"));
  CHECK(session.policy().gate() == nullptr);
}

TEST_CASE("a loaded gate is let go of unless it decides, and a run's command names the gates that its policy reads",
          "[gates]") {
  const TemporaryFolder folder, others;
  write_model_with_gates(folder);
  save_gate(others / "more", random_gate(4, 0.4));
  const std::string more = (others / "more").string(), second = (folder / "gates/b-most").string();
  app::Session session({.engine_command = "exec " + test::fake_engine().string(), .trace_program = {}, .wake = [] {}});
  const auto loaded = [&] { return test::has_model(session); };
  const auto refusal = [&](const std::string& name) {
    return test::error_of([&] { session.model().drop_gate(name); });
  };
  session.model().open(folder.path().string());
  test::poll_until(session, loaded);
  CHECK(refusal("a-half").find("is loaded with the model") != std::string::npos);
  CHECK(refusal("none").find("none is not loaded") != std::string::npos);

  session.model().add_gate(more);  // and takes a policy that reads it
  test::poll_until(session, [&] { return session.policy().gate() && session.policy().gate()->gate.name == "more"; });
  test::poll_until(session, loaded);
  REQUIRE(session.engine().gates_to_load() == std::vector{more});
  CHECK(session.command_line().find(" --gate ") != std::string::npos);
  CHECK(refusal("more").find("is in use") != std::string::npos);
  CHECK(session.engine().gates_to_load() == std::vector{more});

  session.policy().set(PolicySpec::parse("streaming:sinks=4,window=32"));
  CHECK(session.command_line().find(" --gate ") == std::string::npos);
  session.next_run().set_prompt("one two three four five six seven eight nine ten");
  session.next_run().set_max_tokens(6);
  session.start_run();
  CHECK(refusal("more").find("a run is in progress") != std::string::npos);
  test::poll_until(session, [&] { return !session.run_in_progress(); });
  REQUIRE(session.runs().a());
  CHECK(command_line(*session.runs().a()->run).find("streaming") != std::string::npos);
  CHECK(command_line(*session.runs().a()->run).find(" --gate ") == std::string::npos);

  session.model().drop_gate("more");
  CHECK(session.engine().gates_to_load().empty());
  test::poll_until(session, loaded);
  CHECK(session.policy().gates().find("more"));  // can be chosen again
  CHECK(session.parameters().policy.name == "streaming");
  CHECK(session.state()["banners"].empty());
}

TEST_CASE("the line of a loaded gate has a cross that lets go of it", "[gates]") {
  if (test::skip_without_display()) return;
  const TemporaryFolder folder, others;
  write_model_with_gates(folder);
  save_gate(others / "more", random_gate(4, 0.4));
  const test::Xvfb display;
  test::WindowDriver window(display, {.engine = test::fake(), .words = {folder.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/gates/1", "b-most"}});
  window.command("gate.open", {{"path", (others / "more").string()}});
  window.wait({{"/gate", "more"}, {"/engine", "ready"}, {"/model", {{"not", nullptr}}}});
  window.command("models.show");
  CHECK_THAT(window.text_soon("gate.more", ": in use"), Catch::EndsWith(": in use"));
  window.click("gate.more.drop");  // dead
  window.frames(2);
  CHECK(window.state()["gate"] == "more");
  window.command("policy.set", {{"policy", "h2o:keep=25%"}});
  CHECK_THAT(window.text_soon("gate.more", ": loaded"), Catch::EndsWith(": loaded"));
  window.click("gate.more.drop");
  const auto note = [&] { return window.text("gate.more"); };
  for (int i = 0; i < 100 && note().ends_with(": loaded"); ++i) window.frames(2);
  CHECK_FALSE(note().ends_with(": loaded"));
  window.wait({{"/engine", "ready"}, {"/model", {{"not", nullptr}}}});
  CHECK(window.state()["banners"].empty());
}

TEST_CASE("a run by one gate of a kind is previewed and told by the name of the other that is chosen", "[gates]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  write_model_with_gates(folder);
  app::Session session(
      {.engine_command = "exec " + test::real_engine().string(), .device = "cpu", .trace_program = {}, .wake = [] {}});
  session.model().open(folder.path().string());
  test::poll_until(
      session, [&] { return test::has_model(session); }, 120);  // LibTorch comes from the disk
  session.next_run().set_prompt("one two three four five six seven eight nine ten eleven twelve thirteen fourteen");
  session.next_run().set_max_tokens(8);
  session.policy().set(PolicySpec::parse("wg-kv:threshold=0.5,sinks=0,window=4"));
  session.start_run();
  const auto ended = [&] { return test::has_model(session) && !session.run_in_progress(); };
  test::poll_until(session, ended);
  REQUIRE(session.runs().a());
  CHECK(session.runs().a()->run->scorer.text == "WG-KV, delay 0, gate a-half");
  CHECK(session.policy().is_of(*session.runs().a()->run));
  CHECK_FALSE(session.runs().shown_b());

  session.model().choose_gate("b-most");
  test::poll_until(session, [&] { return session.preview().shown(); });
  const RunRecord& preview = *session.preview().run();
  CHECK(preview.policy == session.runs().a()->run->policy);
  CHECK(gate_of(preview) == "b-most");
  CHECK(preview.scores.row(0, 0)[2] != session.runs().a()->run->scores.row(0, 0)[2]);
  CHECK(session.runs().shown_b()->label == "preview of A with gate b-most");
  CHECK_FALSE(session.policy().is_of(*session.runs().a()->run));

  session.decode_again();
  test::poll_until(session, [&] { return ended() && session.runs().shown_b() && !session.runs().shown_b()->preview; });
  CHECK(session.runs().shown_a()->label == "A with gate a-half");
  CHECK(session.runs().shown_b()->label == "B with gate b-most");
  CHECK(session.policy().is_of(*session.runs().b()->run));
  CHECK(command_line(*session.runs().b()->run).find("gates/b-most") != std::string::npos);
}

TEST_CASE("the window's list of policies has an entry for each gate that was found, and choosing one loads it",
          "[gates]") {
  if (test::skip_without_display()) return;
  const TemporaryFolder folder;
  write_model_with_gates(folder);
  const test::Xvfb display;
  test::WindowDriver window(display, {.engine = test::fake(), .words = {folder.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.wait({{"/gates/1", "b-most"}});
  window.frames(2);
  window.click("policy.combo");
  window.frames(2);
  window.click("policy.choice.wg-kv.b-most");
  window.wait({{"/gate", "b-most"}, {"/model", {{"not", nullptr}}}});
  CHECK(window.state()["parameters"]["policy"].get<std::string>().starts_with("wg-kv"));
}

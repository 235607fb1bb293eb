// Scores that another program gives over a pipe: the same tokens as the same scorer built in, and one line for a program that
// fails. kvscope-fake-scorer is that program.
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/decode/gate_pass.h"
#include "engine/decode/generation_batch.h"
#include "kernels/device.h"
#include "tests/engine/gated_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kChannel = 5;

std::string pipe_of(const std::string& words) {
  return "pipe:" + test::in_build("bin/kvscope-fake-scorer") + " " + words;
}

engine::LoadedModel piped_model(const std::string& words, const std::string& device = "cpu",
                                const ModelConfig& config = test::small_config()) {
  return engine::LoadedModel::random(config, 1, {device, "float32", {pipe_of(words)}});
}

/// The gate whose score is one channel of a key, exactly: every other weight is 0.
GateFile channel_gate() {
  GateFile gate = test::random_gate(GateKind::kvpop_linear);
  for (auto& [name, tensor] : gate.tensors) std::ranges::fill(tensor.values, 0.f);
  const std::int64_t row = gate.tensors.at("w2").shape[2];
  std::vector<float>& weight = gate.tensors.at("w2").values;
  for (std::size_t i = kChannel; i < weight.size(); i += static_cast<std::size_t>(row)) weight[i] = 1;
  return gate;
}

std::string keys() { return "keys " + std::to_string(kChannel); }

/// How long a scorer may be silent: 1 s for one that hangs. A busy machine may keep another one waiting for longer.
class Patience {
 public:
  explicit Patience(const std::string& scorer) {
    ::setenv("KVSCOPE_ENGINE_TIMEOUT", scorer.find("hang") != std::string::npos ? "1" : "30", 1);
  }
  ~Patience() { ::unsetenv("KVSCOPE_ENGINE_TIMEOUT"); }
};

/// Scores are the same as far as both are known: over a pipe the last token's is not.
void check_scores(const RunRecord& piped, const RunRecord& built_in) {
  for (int layer = 0; layer < piped.model.n_layers; ++layer) {
    for (int head = 0; head < piped.model.n_kv_heads; ++head) {
      const auto &one = piped.scores.row(layer, head), &other = built_in.scores.row(layer, head);
      REQUIRE(one.size() == other.size());
      for (std::size_t t = 0; t + 1 < one.size(); ++t) REQUIRE(one[t] == other[t]);
      CHECK(std::isnan(one.back()));
    }
  }
}

}  // namespace

TEST_CASE("a scorer over a pipe keeps token for token what the same scorer built in keeps", "[engine][pipe]") {
  const std::string policy =
      GENERATE(as<std::string>{}, "top-k:budget=40,sinks=4,window=16", "top-k:budget=24,sinks=0,window=1",
               "top-k:budget=40,sinks=4,window=16,decay=0.9,stride=4",
               "top-k:keep=30%,window=8,capacity=pooled,interval=8", "top-k:budget=40,window=16,allocation=ada",
               "threshold:threshold=0.1,sinks=2,window=16", "threshold:density=40%,window=16");
  const int prompt_len = GENERATE(1, 60, 150);
  CAPTURE(policy, prompt_len);
  const bool is_solved = policy.find("ada") != std::string::npos || policy.find("density") != std::string::npos;
  if (is_solved && prompt_len == 1) return;  // on the prompt, which has no score then
  const engine::LoadedModel piped = piped_model(keys()), built_in = test::gated_model({channel_gate()});
  const std::vector<std::int32_t> ids = test::some_ids(150);
  const test::Fed one = test::feed(piped, ids, prompt_len, policy, {.chunk = 32});
  const test::Fed other = test::feed(built_in, ids, prompt_len, policy, {.chunk = 32});
  CHECK(one.record.evict_at == other.record.evict_at);
  CHECK(one.kept == other.kept);
  CHECK(one.logits == other.logits);
  check_scores(one.record, other.record);
}

TEST_CASE("the scores of a pipe do not depend on how its prompt was cut", "[engine][pipe]") {
  const std::vector<std::int32_t> ids = test::some_ids(150);
  const std::string policy = "top-k:budget=40,sinks=4,window=16";
  ModelConfig config = test::small_config();
  config.layers[1].norms = GENERATE(NormPlacement::before, NormPlacement::after);  // after: hidden is x itself
  const engine::LoadedModel model = piped_model(GENERATE(as<std::string>{}, "hidden 7", "ahead 7"), "cpu", config);
  const test::Fed whole = test::feed(model, ids, 150, policy, {.chunk = 150});
  for (const int prompt_len : {1, 37, 150}) {
    const test::Fed cut = test::feed(model, ids, prompt_len, policy, {.chunk = 7});
    CHECK(cut.record.evict_at == whole.record.evict_at);
    for (int layer = 0; layer < cut.record.model.n_layers; ++layer)
      for (int t = 0; t < 148; ++t)
        REQUIRE(cut.record.scores.row(layer, 0)[t] == Approx(whole.record.scores.row(layer, 0)[t]).margin(1e-5));
  }
}

TEST_CASE("a scorer that looks one token ahead has a delay of two", "[engine][pipe]") {
  const engine::LoadedModel ahead = piped_model("ahead " + std::to_string(kChannel)), plain = piped_model(keys());
  CHECK(ahead.scorer()->delay() == 2);
  const std::vector<std::int32_t> ids = test::some_ids(60);
  const std::string policy = "top-k:budget=200,window=16";  // nothing leaves, so that both read the same
  const RunRecord late = test::feed(ahead, ids, 30, policy).record, own = test::feed(plain, ids, 30, policy).record;
  for (std::size_t t = 0; t + 2 < ids.size(); ++t) REQUIRE(late.scores.row(1, 1)[t] == own.scores.row(1, 1)[t + 1]);
}

TEST_CASE("a dense pass gives the scores of a pipe as it gives those of a gate", "[engine][pipe]") {
  const GateScoresRequest request{.ids = test::some_ids(700)};
  const engine::LoadedModel piped = piped_model(keys()), built_in = test::gated_model({channel_gate()});
  const ScoresOfGates one = engine::gate_scores(piped, request), other = engine::gate_scores(built_in, request);
  CHECK(one.front().text == "pipe: fake, delay 1");
  CHECK(one.front().name.starts_with("pipe-"));
  for (std::size_t t = 0; t < 699; ++t) REQUIRE(one.front().scores.row(1, 0)[t] == other.front().scores.row(1, 0)[t]);
}

TEST_CASE("two runs of a batch share one scorer over a pipe and stay apart", "[engine][pipe]") {
  const engine::LoadedModel model = piped_model(keys());
  const std::vector<RunRequest> requests = {test::request(test::some_ids(50), "top-k:budget=24,window=8", 12),
                                            test::request(test::some_ids(31, 512, 2), "top-k:budget=20,window=4", 12)};
  std::vector<engine::Generation> runs;
  engine::GenerationBatch batch(model, 2);
  for (const RunRequest& request : requests) {
    runs.emplace_back(model, request);
    runs.back().prefill();
  }
  for (engine::Generation& run : runs) batch.join(run);
  while (!batch.step().empty()) continue;
  for (int i = 0; i < 2; ++i) {
    const RunRecord alone = engine::record_run(model, requests[static_cast<std::size_t>(i)]);
    CHECK(runs[i].ids() == alone.ids);
  }
}

TEST_CASE("a local layer of the model is not scored over a pipe", "[engine][pipe]") {
  ModelConfig config = test::small_config();
  config.layers[0].window = 12;
  const engine::LoadedModel model = piped_model(keys(), "cpu", config);
  const RunRecord run = test::feed(model, test::some_ids(80), 40, "top-k:budget=24,window=8").record;
  CHECK(std::isfinite(run.scores.row(1, 0)[50]));
  CHECK(std::isnan(run.scores.row(0, 0)[50]));
}

TEST_CASE("a scorer over a pipe that fails ends the run in one line", "[engine][pipe]") {
  struct Case {
    const char *words, *line;
  };
  const Case failing = GENERATE(
      Case{"keys 5 die 1", "the scorer stopped: exit code 3; its last message: ValueError: the scorer broke"},
      Case{"keys 5 die 9", "the scorer stopped: exit code 3; its last message: ValueError: the scorer broke"},
      Case{"keys 5 hang 9", "no answer for 1 s; expected one within KVSCOPE_ENGINE_TIMEOUT"},
      Case{"keys 5 flood 9", "more bytes than were asked for"}, Case{"keys 5 more 9", "more bytes than were asked for"},
      Case{"keys 5 nan 1", "layer 0, head 1, position 0: a score that is NaN; expected a finite number"},
      Case{"keys 5 nan 9", "a score that is NaN; expected a finite number"});
  CAPTURE(failing.words);
  const Patience patience(failing.words);
  const engine::LoadedModel model = piped_model(failing.words);
  const RunRequest request = test::request(test::some_ids(40), "top-k:budget=24,window=8", 12);
  const std::string line = test::error_of([&] { engine::record_run(model, request); });
  CHECK(line.find(failing.line) != std::string::npos);
  CHECK(line.starts_with("pipe:"));
  CHECK(line.find('\n') == std::string::npos);
  CAPTURE(line);
  // The model is as good as before: a policy without scores runs, and the scorer is started again for the next, which ends
  // before its ninth frame.
  CHECK(engine::record_run(model, test::request(test::some_ids(40), "streaming:window=16", 4)).ids.size() == 44);
  if (std::string(failing.words).ends_with("9"))
    CHECK(test::feed(model, test::some_ids(40), 40, "top-k:budget=24,window=8", {.chunk = 40}).kept.size() == 4);
}

TEST_CASE("a scorer over a pipe that does not greet ends the load in one line", "[engine][pipe]") {
  struct Case {
    std::string command, line;
  };
  const Case failing = GENERATE(
      Case{pipe_of("keys 5 hang 0"), "no answer for 1 s"}, Case{pipe_of("keys 5 flood 0"), "more bytes"},
      Case{pipe_of("keys 5 noise 0"), "greeting: line 1, column 1: not valid JSON"},
      Case{pipe_of("keys 5 die 0"), "exit code 3; its last message: ValueError: the scorer broke"},
      Case{"pipe:/nowhere/scorer", "exit code 127; its last message: "}, Case{"pipe:exec cat", "reads"},
      Case{"pipe:read x; echo '{\"kvscope_scorer\": 2}'; sleep 9", "kvscope_scorer"},
      Case{"pipe:read x; echo '{\"kvscope_scorer\": 1, \"reads\": [\"query\"]}'; sleep 9", "keys, values, hidden"});
  CAPTURE(failing.command);
  const Patience patience(failing.command);
  const std::string line = test::error_of([&] {
    engine::LoadedModel::random(test::small_config(), 1, {"cpu", "float32", {failing.command}});
  });
  CAPTURE(line);
  CHECK(line.find(failing.line) != std::string::npos);
  CHECK(line.starts_with("pipe:"));
}

TEST_CASE("a window shorter than the delay of a scorer over a pipe is refused", "[engine][pipe]") {
  const engine::LoadedModel model = piped_model("ahead 5");
  const std::string line =
      test::error_of([&] { test::feed(model, test::some_ids(40), 20, "top-k:budget=24,window=1"); });
  CHECK(line.find("at least 2") != std::string::npos);
}

TEST_CASE("on CUDA a scorer over a pipe keeps what the same scorer built in keeps", "[engine][cuda][pipe]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy =
      GENERATE(as<std::string>{}, "top-k:budget=40,sinks=4,window=16",
               "top-k:keep=30%,window=8,capacity=pooled,interval=8", "threshold:threshold=0.1,sinks=2,window=16");
  const int prompt_len = GENERATE(1, 60, 150);
  CAPTURE(policy, prompt_len);
  const engine::LoadedModel piped = piped_model(keys(), "cuda"), built_in = test::gated_model({channel_gate()}, "cuda");
  const std::vector<std::int32_t> ids = test::some_ids(150);
  const test::Fed one = test::feed(piped, ids, prompt_len, policy, {.chunk = 32});
  const test::Fed other = test::feed(built_in, ids, prompt_len, policy, {.chunk = 32});
  CHECK(one.record.evict_at == other.record.evict_at);
  CHECK(one.kept == other.kept);
  check_scores(one.record, other.record);
}

TEST_CASE("on CUDA a scorer over a pipe reads the hidden states that it reads on the CPU", "[engine][cuda][pipe]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::vector<std::int32_t> ids = test::some_ids(100);
  const std::string policy = "top-k:budget=40,sinks=4,window=16";
  const RunRecord cuda = test::feed(piped_model("hidden 7", "cuda"), ids, 40, policy).record;
  const RunRecord cpu = test::feed(piped_model("hidden 7"), ids, 40, policy).record;
  for (int layer = 0; layer < cpu.model.n_layers; ++layer)
    for (int t = 0; t < 99; ++t)
      REQUIRE(cuda.scores.row(layer, 0)[t] == Approx(cpu.scores.row(layer, 0)[t]).margin(1e-4));
}

}  // namespace kvscope

// kvscope-engine on a GPU whose memory ends, or whose context is lost. KVSCOPE_FAULTS: how many of each (8).
#include "tests/support/cuda_fault.h"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"
#include "kernels/device.h"
#include "tests/engine/engine_process.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

namespace kvscope {
namespace {

using nlohmann::json;
using test::CudaFault;

const std::string kSample = test::in_source("samples/models/kvscope-tiny");

int faults() {
  const char* text = std::getenv("KVSCOPE_FAULTS");
  return text ? std::atoi(text) : 8;
}

/// An engine whose GPU does what `fault` says.
struct FaultyEngine {
  explicit FaultyEngine(std::map<std::string, std::string> environment = {})
      : fault(test::cuda_fault(folder / "fault")) {
    environment["LD_PRELOAD"] = test::fault_library("cuda");
    environment[CudaFault::kVariable] = (folder / "fault").string();
    engine = std::make_unique<test::EngineProcess>(environment);
  }
  json load() {
    return engine->call({{"type", "load"}, {"id", 1}, {"model", kSample}, {"device", "cuda"}, {"dtype", "bfloat16"}})
        .back();
  }
  test::TempFolder folder;
  CudaFault& fault;
  std::unique_ptr<test::EngineProcess> engine;
};

RunRequest long_run() {
  RunRequest request;
  for (int i = 0; i < 70; ++i) request.prompt += "Every house in the street has a garden with an old wall around it. ";
  request.policy = PolicySpec::parse("kvpop:budget=256,sinks=4,window=64");
  request.max_tokens = 24;
  request.stop_at_eos = false;
  return request;
}

struct Outcome {
  json last;      // done, or error
  RunRecord run;  // what was told until then
};

Outcome decode(FaultyEngine& faulty, const json& model, const std::function<void(int)>& at_event = {}) {
  Outcome outcome;
  outcome.run.model = protocol::model_info_from_json(model);
  int n = 0;
  const auto events = faulty.engine->call(protocol::to_json(long_run(), 2), [&](const json& event) {
    protocol::apply_event(outcome.run, event);
    if (at_event) at_event(n++);
  });
  outcome.last = events.empty() ? json{{"type", "nothing"}} : events.back();
  return outcome;
}

bool is_same_run(const RunRecord& a, const RunRecord& b) {
  const auto bytes = [](const RunRecord& run) {
    std::string all;
    for (int layer = 0; layer < run.model.n_layers; ++layer)
      for (int head = 0; head < run.model.n_kv_heads; ++head)
        for (const auto* rows : {&run.scores, &run.future_mass})
          all.append(reinterpret_cast<const char*>(rows->row(layer, head).data()),
                     rows->row(layer, head).size() * sizeof(float));
    return all;
  };
  return a.ids == b.ids && a.evict_at == b.evict_at && a.contests == b.contests && bytes(a) == bytes(b);
}

// The engine reports a run's end and then frees what it used.
bool falls_to(const std::atomic<std::uint64_t>& live, double most) {
  for (int i = 0; i < 100 && static_cast<double>(live) > most; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return static_cast<double>(live) <= most;
}

TEST_CASE("where the GPU's memory ends the load or run says so, and the next is as in a process where it never ended",
          "[engine][cuda][cuda_fault]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  // Without the allocator's cache each tensor is an allocation that can fail, and what is live is what is used.
  const std::map<std::string, std::string> every_tensor = {{"PYTORCH_NO_CUDA_MEMORY_CACHING", "1"}};
  FaultyEngine fresh(every_tensor);
  const json loaded = fresh.load();
  REQUIRE(loaded.at("type") == "done");
  const std::uint64_t model_bytes = fresh.fault.live;
  const Outcome expected = decode(fresh, loaded.at("model"));
  REQUIRE(expected.last.at("type") == "done");
  const std::uint64_t most = fresh.fault.peak;
  REQUIRE(most > model_bytes);

  FaultyEngine small(every_tensor);
  const json elsewhere = {{"type", "load"}, {"id", 1}, {"model", kSample}, {"device", "cpu"}, {"dtype", "float32"}};
  const int n = faults(), n_loads = (n + 4) / 5;
  for (int i = 0; i < n; ++i) {
    const bool in_load = i < n_loads;
    const double share = in_load ? (i + 0.5) / n_loads : (i - n_loads + 0.5) / (n - n_loads);
    REQUIRE((in_load ? small.engine->call(elsewhere).back() : small.load()).at("type") == "done");
    small.fault.limit = in_load
                            ? static_cast<std::uint64_t>(share * static_cast<double>(model_bytes))
                            : model_bytes + static_cast<std::uint64_t>(share * static_cast<double>(most - model_bytes));
    const json last = in_load ? small.load() : decode(small, loaded.at("model")).last;
    CAPTURE(i, in_load, share, small.fault.limit.load(), last.dump());
    REQUIRE(last.at("type") == "error");
    const Error error = protocol::error_from_event(last);
    CHECK(error.code() == ExitCode::resource);
    CHECK(std::string(error.what()).find("memory") != std::string::npos);

    small.fault.limit = 0;
    REQUIRE(small.load().at("type") == "done");
    const Outcome again = decode(small, loaded.at("model"));
    REQUIRE(again.last.at("type") == "done");
    CHECK(is_same_run(again.run, expected.run));
    CHECK(falls_to(small.fault.live, 1.01 * static_cast<double>(fresh.fault.live)));
  }
  WARN(n_loads << " loads and " << n - n_loads << " runs without memory; bytes of the model " << model_bytes
               << ", of a run at most " << most << ", live after all: " << small.fault.live
               << ", after one run: " << fresh.fault.live);
}

TEST_CASE("with the allocator's cache, a run without memory is told, and gives back what it had",
          "[engine][cuda][cuda_fault]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  FaultyEngine small;
  const json loaded = small.load();
  REQUIRE(loaded.at("type") == "done");
  const std::uint64_t model_bytes = small.fault.live;
  small.fault.limit = model_bytes + 1;
  const Outcome refused = decode(small, loaded.at("model"));
  CAPTURE(refused.last.dump());
  REQUIRE(refused.last.at("type") == "error");
  CHECK(protocol::error_from_event(refused.last).code() == ExitCode::resource);
  CHECK(small.fault.live <= model_bytes);
  small.fault.limit = 0;
  CHECK(decode(small, loaded.at("model")).last.at("type") == "done");
}

TEST_CASE("a lost CUDA context is one line with CUDA's name for it, and the engine's end",
          "[engine][cuda][cuda_fault]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  int n_events = 0, named = 0;
  {
    FaultyEngine sound;
    const json loaded = sound.load();
    REQUIRE(decode(sound, loaded.at("model"), [&](int) { ++n_events; }).last.at("type") == "done");
  }
  const int n = faults();
  for (int i = 0; i < n; ++i) {
    FaultyEngine faulty;
    const json loaded = faulty.load();
    REQUIRE(loaded.at("type") == "done");
    const int moment = i * n_events / n;  // events of the run, from its first on
    Outcome outcome = decode(faulty, loaded.at("model"), [&](int event) {
      if (event != moment) return;
      faulty.fault.trap = CudaFault::wanted;
      while (faulty.fault.trap == CudaFault::wanted) std::this_thread::yield();
    });
    // Its last word may have been on its way by then: the next request meets the fault.
    if (outcome.last.at("type") == "done") outcome = decode(faulty, loaded.at("model"));
    CAPTURE(i, moment, outcome.last.dump());
    REQUIRE(outcome.last.at("type") == "error");
    const Error error = protocol::error_from_event(outcome.last);
    CHECK(error.code() == ExitCode::resource);
    CHECK(std::string(error.what()).find("CUDA") != std::string::npos);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    named += std::string(error.what()).find("cudaError") != std::string::npos;
    const int status = faulty.engine->wait();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::resource));
  }
  WARN(named << " of " << n << " lines have CUDA's name");
}

}  // namespace
}  // namespace kvscope

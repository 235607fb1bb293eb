#include "engine/server/engine_server.h"

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/model_folder.h"
#include "engine/core/protocol/engine_offer.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/version.h"
#include "engine/decode/forced_pass.h"
#include "engine/decode/gate_pass.h"
#include "engine/decode/query_attention.h"
#include "engine/decode/run_memory.h"
#include "engine/decode/token_attention.h"
#include "engine/jobs/job.h"
#include "engine/model/device.h"
#include "engine/model/weights.h"
#include "engine/server/doctor.h"
#include "engine/server/failure.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

/// For tests of what happens when an engine dies: abort() as the N-th new token of a run is done.
int crash_at_token() {
  const char* value = std::getenv("KVSCOPE_ENGINE_CRASH_AT_TOKEN");
  return value != nullptr ? std::atoi(value) : 0;
}

std::filesystem::file_time_type newest_file(const std::filesystem::path& folder) {
  std::filesystem::file_time_type newest = std::filesystem::file_time_type::min();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code error;  // a link that leads nowhere has no time; if it is a file of the model, its reader says so
    const auto written = entry.last_write_time(error);
    if (!error) newest = std::max(newest, written);
  }
  return newest;
}

/// Of the folder that a job's arguments name, if they do. What is wrong with it, the job says.
std::vector<std::string> warnings_of_model(const json& args) {
  const auto model = args.is_object() ? args.find("model") : args.end();
  std::error_code error;
  if (model == args.end() || !model->is_string() || !std::filesystem::is_directory(model->get<std::string>(), error))
    return {};
  try {
    return ModelFolder::open(model->get<std::string>()).warnings;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

int EngineServer::serve() {
  const int code = answer_all();
  out_.flush();
  return code;
}

int EngineServer::answer_all() {
  const CudaStatus cuda = cuda_status();
  json hello = protocol::hello(version(), torch_version(), cuda.n_devices > 0,
                               cuda.n_devices > 0 ? "cuda:0 " + cuda_device(0).name : "cpu");
  hello.update(protocol::to_json(protocol::own_offer(most_runs_at_once(cuda.n_devices > 0))));
  hello["gpus"] = cuda.n_devices;
  out_.write(hello);
  requests_ = std::make_unique<RequestQueue>(channel_);
  try {
    while (const std::shared_ptr<ServedRequest> request = requests_->next()) {
      const bool goes_on = request->type == "run" ? answer_runs(request) : answer(*request);
      if (!goes_on) return static_cast<int>(ExitCode::resource);
    }
  } catch (const Error& error) {  // a torn message: nothing after it can be trusted
    out_.write(protocol::error_event(-1, error));
    return static_cast<int>(error.code());
  }
  return 0;
}

/// One request, one `done` or `error`. A write that fails ends the conversation, so that it may not end up in an error
/// event.
bool EngineServer::answer(ServedRequest& request) {
  std::exception_ptr error;
  try {
    std::visit([&](const auto& wanted) { serve(wanted, request); }, protocol::request_from_json(request.message));
    return true;
  } catch (...) {
    error = std::current_exception();
  }
  return tell_failure(request.id, error);
}

bool EngineServer::tell_failure(int id, const std::exception_ptr& thrown) {
  json event;
  bool goes_on = true;
  try {
    std::rethrow_exception(thrown);
  } catch (...) {
    const auto [error, ends_process] = current_failure();
    goes_on = !ends_process;
    event = error.code() == ExitCode::cancelled ? protocol::done(id, {{"status", "cancelled"}})
                                                : protocol::error_event(id, error);
    // What did not fit may have left much behind that nobody uses; another program may be waiting for it.
    if (error.code() == ExitCode::resource && goes_on) give_back_cached_memory();
  }
  out_.write(event);
  return goes_on;
}

bool EngineServer::answer_runs(std::shared_ptr<ServedRequest> first) {
  bool goes_on = true;
  std::unique_ptr<RunBatch> batch;
  try {
    batch = std::make_unique<RunBatch>(model(), most_runs_at_once(model().weights().device.is_cuda()));
  } catch (...) {
    return tell_failure(first->id, std::current_exception());
  }
  batch->run([&]() -> std::optional<BatchedRun> {
    while (goes_on) {
      const std::shared_ptr<ServedRequest> request = first ? std::move(first) : requests_->next_if("run");
      if (!request) break;
      if (auto run = batched(request, goes_on)) return run;
    }
    return std::nullopt;
  });
  return goes_on;
}

/// Nothing for a request that cannot be read, which has been answered. goes_on: as tell_failure() says.
std::optional<BatchedRun> EngineServer::batched(std::shared_ptr<ServedRequest> request, bool& goes_on) {
  const int id = request->id;
  std::exception_ptr error;
  try {
    return BatchedRun{.request = std::get<RunRequest>(protocol::request_from_json(request->message)),
                      .sink = sink(request),
                      .ended = [this, id](const RunEnded& ended) { out_.write(protocol::to_json(ended, id)); },
                      .failed =
                          [this, id, &goes_on](const std::exception_ptr& error) {
                            if (!tell_failure(id, error)) goes_on = false;
                          }};
  } catch (...) {
    error = std::current_exception();
  }
  if (!tell_failure(id, error)) goes_on = false;
  return std::nullopt;
}

const LoadedModel& EngineServer::model() const {
  if (model_) return *model_;
  throw Error({.code = ExitCode::usage, .file = "request", .found = "no model is loaded", .expected = "load first"});
}

/// The request must outlive what is hooked.
Hooks EngineServer::hooks(const ServedRequest& request) {
  Hooks hooks;
  hooks.cancelled = [&request] { return request.cancelled.load(); };
  hooks.progress = [this, id = request.id](const char* phase, double value, double max) {
    out_.write(protocol::progress(id, phase, value, max));
  };
  return hooks;
}

void EngineServer::serve(const protocol::LoadRequest& request, ServedRequest& served) {
  const int id = served.id;
  const auto start = std::chrono::steady_clock::now();
  const std::filesystem::path path = request.model;
  Loaded wanted{path, {request.device, request.dtype, request.gates}, {}};
  // The cheap half of loading comes first: a wrong path must not cost the model that is there.
  ModelConfig::load(path);
  wanted.written = newest_file(path);
  if (!model_ || !(wanted == loaded_)) {
    model_.reset();  // before the next one is read: a device may not hold both
    model_ = LoadedModel::load(path, wanted.options, [&](std::int64_t done, std::int64_t total) {
      if (served.cancelled) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
      out_.write(protocol::progress(id, "load", static_cast<double>(done), static_cast<double>(total)));
    });
    loaded_ = wanted;
  }
  for (const std::string& line : model_->warnings()) out_.write(protocol::warning(id, line));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  json done = protocol::done_load(id, model_->info(), seconds.count(), model_->gate_numbers());
  done["runs_at_once"] = most_runs_at_once(model_->weights().device.is_cuda());
  out_.write(done);
}

/// Holds the request, which is served as long as its run is in flight.
RunSink EngineServer::sink(const std::shared_ptr<ServedRequest>& request) {
  const int id = request->id;
  RunSink sink;
  sink.hooks = hooks(*request);
  sink.started = [this, id](const RunStarted& started) { out_.write(protocol::to_json(started, id)); };
  sink.step = [this, id, crash_at = crash_at_token(), new_tokens = 0](StepFacts facts) mutable {
    new_tokens += static_cast<int>(facts.ids.size());
    out_.write_facts(std::move(facts), id);
    if (crash_at == 0 || new_tokens < crash_at) return;
    out_.flush();
    std::abort();
  };
  sink.next_policy = [this, request] { return requests_->take_policy(*request); };
  sink.policy_changed = [this, id](const PolicyChange& change) { out_.write(protocol::to_json(change, id)); };
  sink.log = [this, id](const std::string& text) { out_.write(protocol::log(id, text)); };
  sink.oracle = [this, id](OracleFacts facts) { out_.write_facts(std::move(facts), id); };
  sink.output_error = [this, id](OutputErrorFacts facts) { out_.write_facts(std::move(facts), id); };
  return sink;
}

void EngineServer::serve(const ScoreRequest& request, ServedRequest& served) {
  out_.write(protocol::done_score(served.id, forced_pass(model(), request, hooks(served))));
}

void EngineServer::serve(const TokenAttentionRequest& request, ServedRequest& served) {
  out_.write(protocol::done_token_attention(served.id, token_attention(model(), request, hooks(served))));
}

void EngineServer::serve(const QueryAttentionRequest& request, ServedRequest& served) {
  out_.write(protocol::done_query_attention(served.id, query_attention(model(), request, hooks(served))));
}

void EngineServer::serve(const GateScoresRequest& request, ServedRequest& served) {
  const ScoresOfGates gates = gate_scores(model(), request, hooks(served));
  out_.write(protocol::done_gate_scores(served.id, gates, static_cast<int>(request.ids.size())));
}

void EngineServer::serve(const protocol::JobRequest& request, ServedRequest& served) {
  const int id = served.id;
  JobContext context;
  context.progress = [&](const std::string& phase, double value, double max, const std::string& text) {
    out_.write(protocol::progress(id, phase, value, max, text));
  };
  context.row = [&](const std::string& text, const json& data) { out_.write(protocol::row(id, text, data)); };
  context.curve = [&](const json& curve) { out_.write(protocol::row(id, "", {{"curve", curve}})); };
  context.cancelled = &served.cancelled;
  std::string names;
  for (const JobInfo& info : job_list()) {
    if (request.job == info.name) {
      for (const std::string& line : warnings_of_model(request.args)) out_.write(protocol::warning(id, line));
      json result = info.run(request.args, context);
      const bool cancelled = result.is_object() && result.value("status", "") == "cancelled";
      json fields = {{"result", std::move(result)}};
      if (cancelled) fields["status"] = "cancelled";
      return out_.write(protocol::done(id, std::move(fields)));
    }
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  throw Error({.code = ExitCode::usage, .file = "job", .found = request.job, .expected = "one of " + names});
}

void EngineServer::serve(const protocol::DoctorRequest&, ServedRequest& served) {
  out_.write(protocol::done(served.id, {{"checks", doctor_checks()}}));
}

}  // namespace kvscope::engine

#include "app/cli/engine_job.h"

#include <filesystem>

#include "app/process/interrupt.h"
#include "app/session/run_setup.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr std::chrono::milliseconds kPoll(50);
constexpr std::chrono::seconds kCancelPatience(20);

bool is_for(const nlohmann::json& event, int id) { return event.value("id", -1) == id; }

std::string choice(const Arguments& arguments, std::string_view option,
                   std::initializer_list<std::string_view> allowed) {
  const std::string value = arguments.text(option, *allowed.begin());
  std::string list;
  for (const std::string_view name : allowed) {
    if (name == value) return value;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  throw Error({.code = ExitCode::usage, .file = dashed(option), .found = "'" + value + "'", .expected = list});
}

Error engine_ended(const nlohmann::json& event) {
  std::string last;
  for (const auto& line : event.value("stderr", std::vector<std::string>())) {
    if (!line.empty()) last = line;
  }
  // A batch system's TERM goes to the engine too: then its end is what was asked for.
  return Error({.code = interrupted() ? ExitCode::cancelled : ExitCode::resource,
                .file = "engine",
                .found = "it ended: " + event.value("reason", "") + (last.empty() ? "" : "; it last said: " + last)});
}

}  // namespace

EngineJob::EngineJob(const Arguments& arguments)
    : progress_(arguments.has("quiet")),
      device_(choice(arguments, "device", {"auto", "cpu", "cuda"})),
      dtype_(choice(arguments, "dtype", {"auto", "float32", "bfloat16"})),
      gates_(arguments.texts("gate")),
      client_({.command = arguments.text("engine")}) {
  catch_interrupts();
  hello_ = wait_event();
  if (hello_.value("type", "") != "hello") {
    throw Error({.code = ExitCode::resource,
                 .file = "engine",
                 .found = "a first message that is no greeting",
                 .expected = "hello"});
  }
  if (const int version = hello_.value("version", 0); version != protocol::kVersion) {
    throw Error({.code = ExitCode::resource,
                 .file = "engine",
                 .found = "protocol version " + std::to_string(version),
                 .expected = "version " + std::to_string(protocol::kVersion),
                 .hint = "use the kvscope-engine of the same release"});
  }
}

// Every event passes here. The engine's end is an error wherever it comes, since no command of ours ends so.
nlohmann::json EngineJob::wait_event() {
  while (true) {
    if (auto event = client_.wait_event(kPoll)) {
      if (event->value("type", "") == "ended") throw engine_ended(*event);
      return std::move(*event);
    }
    if (interrupted()) return {{"type", "interrupted"}};
  }
}

nlohmann::json EngineJob::call(nlohmann::json request, const Handler& handler) {
  const int id = client_.next_id();
  client_.request_with_id(std::move(request), id);
  std::optional<std::chrono::steady_clock::time_point> give_up;
  while (true) {
    if (interrupted() && !give_up) {
      client_.cancel(id);
      give_up = std::chrono::steady_clock::now() + kCancelPatience;
    }
    const auto event = client_.wait_event(kPoll);
    if (!event) {
      if (!give_up || std::chrono::steady_clock::now() < *give_up) continue;
      throw Error({.code = ExitCode::cancelled,
                   .file = "engine",
                   .found = "it did not answer the cancellation; it was killed"});
    }
    const std::string type = event->value("type", "");
    if (type == "ended") throw engine_ended(*event);
    if (!is_for(*event, id)) continue;
    if (type == "progress" && show_engine_progress_) {
      progress_.update(event->value("phase", ""), event->value("value", 0.0), event->value("max", 0.0),
                       event->value("text", ""));
    }
    if (handler) handler(*event);
    if (type == "error") throw protocol::error_from_event(*event);
    if (type == "done") return *event;
  }
}

ModelInfo EngineJob::load(const std::string& model) {
  const auto done =
      call({{"type", "load"}, {"model", model}, {"device", device_}, {"dtype", dtype_}, {"gates", gates_}});
  if (done.value("status", "") == "cancelled")
    throw Error({.code = ExitCode::cancelled, .found = "cancelled while loading"});
  return protocol::model_info_from_json(done.at("model"));
}

std::string EngineJob::run(const ModelInfo& model, const RunRequest& request, RunRecord& record,
                           const std::function<void()>& on_step) {
  record = start_record(model, request);
  try {
    const nlohmann::json done = call(protocol::to_json(request, 0), [&](const nlohmann::json& event) {
      protocol::apply_event(record, event);
      if (on_step) on_step();
    });
    return done.value("text", "");
  } catch (const Error& error) {
    record.status = RunStatus::failed;
    record.message = error.what();
    throw;
  }
}

void check_model_path(const Arguments& arguments, const std::string& model) {
  std::error_code error;
  if (arguments.has("engine") || std::filesystem::is_directory(model, error)) return;
  const bool exists = std::filesystem::exists(model, error);
  throw Error({.code = ExitCode::bad_input,
               .file = model,
               .found = exists ? "a file" : "no such folder",
               .expected = "a model's folder with config.json"});
}

}  // namespace kvscope::app

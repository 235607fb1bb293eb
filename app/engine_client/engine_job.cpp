#include "app/engine_client/engine_job.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "app/catalog/adapters.h"
#include "app/catalog/gates.h"
#include "app/catalog/models.h"
#include "app/engine_client/run_setup.h"
#include "app/support/interrupt.h"
#include "app/support/paths.h"
#include "engine/core/protocol/events.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {
namespace {

constexpr std::chrono::milliseconds kPoll(50);
constexpr std::chrono::seconds kCancelPatience(20), kSilence(10);
constexpr std::chrono::milliseconds kSignalPatience(300);

/// Empty: the usual one.
std::string engine_command(const std::string& given, const std::vector<std::string>& environment) {
  if (!given.empty() || environment.empty()) return given;
  std::string command = "exec env";
  for (const std::string& variable : environment) command += " " + shell_quote(variable);
  return command + " " + shell_quote((executable_folder() / "kvscope-engine").string());
}

}  // namespace

EngineJob::EngineJob(EngineJobOptions options, Greeting when)
    : progress_(options.is_quiet || !options.shows_progress),
      options_(std::move(options)),
      load_{.model = "", .device = options_.device, .dtype = options_.dtype, .gates = {}},
      client_(options_.started && options_.environment.empty() ? options_.started->take() : nullptr) {
  catch_interrupts();
  if (client_) {
    greeting_ = options_.started->greeting;
    offer_ = greeting_.offer;
    return;
  }
  client_ = std::make_unique<EngineClient>(
      EngineClient::Options{.command = engine_command(options_.engine, options_.environment)});
  if (when == Greeting::now) greet();
}

void EngineJob::greet() {
  std::optional<nlohmann::json> first;
  while (!first && !interrupted()) first = wait_event();
  if (interrupted()) throw Error({.code = ExitCode::cancelled, .found = "cancelled before the engine started"});
  greeting_ = EngineGreeting::read(*first);
  greeting_.check_version();
  offer_ = greeting_.offer;
}

std::shared_ptr<StartedEngine> EngineJob::hand_over() && {
  return std::make_shared<StartedEngine>(std::move(client_), greeting_);
}

// Every event passes here. The engine's end is an error wherever it comes, since no command of ours ends so.
std::optional<nlohmann::json> EngineJob::wait_event() {
  auto event = client_->wait_event(kPoll);
  if (!event) {
    say_silence();
    return event;
  }
  last_event_ = std::chrono::steady_clock::now();
  silence_said_ = false;
  if (event->value("type", "") == "ended") throw_end(EngineEnd::read(*event));
  return event;
}

void EngineJob::throw_end(const EngineEnd& end) {
  // A batch system's TERM goes to the engine too, and may reach it first: then its end is what was asked for.
  const auto give_up = std::chrono::steady_clock::now() + kSignalPatience;
  while (!interrupted() && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(kPoll);
  if (const std::string torch = end.missing_torch(); !torch.empty() && !interrupted())
    throw Error({.code = ExitCode::resource, .file = "engine", .found = torch});
  Error::Parts parts{
      .code = ExitCode::resource,
      .file = "engine",
      .found = "it " + end_words(end.reason) + (end.said.empty() ? "" : "; its last message: " + end.said.back())};
  if (!interrupted()) throw EngineStopped(std::move(parts));
  parts.code = ExitCode::cancelled;
  throw Error(std::move(parts));
}

void EngineJob::say_silence() {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - last_event_).count();
  if (seconds < kSilence.count() || silence_said_) return;
  silence_said_ = true;
  progress_.update("waiting for the engine", 0, 0, "no answer for " + std::to_string(seconds) + " s");
}

bool EngineJob::is_stopped() const { return interrupted() || (options_.stop && options_.stop()); }

std::optional<nlohmann::json> EngineJob::wait_event_of(std::span<const int> ids, Deadline& give_up) {
  if (is_stopped() && !give_up) {
    for (const int id : ids) client_->cancel(id);
    give_up = std::chrono::steady_clock::now() + kCancelPatience;
  }
  auto event = wait_event();
  if (!event && give_up && std::chrono::steady_clock::now() >= *give_up) {
    throw Error({.code = ExitCode::cancelled,
                 .file = "engine",
                 .found = "it did not respond to the cancellation and was killed"});
  }
  if (!event || std::ranges::count(ids, protocol::message_id(*event)) == 0) return std::nullopt;
  const std::string type = event->value("type", "");
  if (type == "progress" && show_engine_progress_) {
    progress_.update(event->value("phase", ""), event->value("value", 0.0), event->value("max", 0.0),
                     event->value("text", ""));
  }
  if (type == "warning") warn(event->value("text", ""));
  return event;
}

nlohmann::json EngineJob::call(const protocol::Request& request, const Handler& handler) {
  check_offered(offer_, request);
  const int id = client_->request(request);
  Deadline give_up;
  last_event_ = std::chrono::steady_clock::now();
  while (true) {
    const auto event = wait_event_of({&id, 1}, give_up);
    if (!event) continue;
    if (handler) handler(*event);
    const std::string type = event->value("type", "");
    if (type == "error") throw protocol::error_from_event(*event);
    if (type == "done") return *event;
  }
}

void EngineJob::run_all(const ModelInfo& model, int n, const NextRun& next, const EndOfRun& ended) {
  struct Flight {
    std::size_t number;
    RunRecord record;
  };
  std::vector<int> ids;
  std::vector<Flight> flights;  // of ids
  Deadline give_up;
  last_event_ = std::chrono::steady_clock::now();
  while (true) {
    while (static_cast<int>(ids.size()) < std::min(n, offer_.runs_at_once) && !give_up) {
      const std::optional<NumberedRun> run = next();
      if (!run) break;
      const RunRequest sent = protocol::fitted(offer_, run->request);
      check_offered(offer_, sent);
      flights.push_back({run->number, start_record(model, asked(sent), offer_.recorder())});
      ids.push_back(client_->request(sent));
    }
    if (ids.empty()) return;
    const auto event = wait_event_of(ids, give_up);
    if (!event) continue;
    const auto at = std::ranges::find(ids, protocol::message_id(*event)) - ids.begin();
    RunRecord& record = flights[static_cast<std::size_t>(at)].record;
    protocol::apply_event(record, *event);
    const std::string type = event->value("type", "");
    if (type != "error" && type != "done") continue;
    std::optional<Error> error;
    if (type == "error") {
      error = protocol::error_from_event(*event);
      finish_run(record, RunStatus::failed, line_in_files(*error));
    }
    Flight flight = std::move(flights[static_cast<std::size_t>(at)]);
    ids.erase(ids.begin() + at);
    flights.erase(flights.begin() + at);
    ended(flight.number, std::move(flight.record), error);
  }
}

void EngineJob::warn(const std::string& text) {
  // A command may load a model several times, and in several engines.
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (!printed.insert(text).second) return;
  progress_.clear();
  print_warning(text);
}

ModelInfo EngineJob::load(const std::string& model, std::span<const PolicySpec> policies) {
  return protocol::model_from_event(load_with(model, gates_for(options_, model, policies)));
}

nlohmann::json EngineJob::load_with(const std::string& model, const std::vector<std::string>& gates) {
  if (greeting_.version == 0) greet();
  load_.model = model;
  load_.gates = gates;
  if (!options_.is_elsewhere() && !options_.is_quiet) {
    for (const std::string& path : gates) {
      if (const std::string note = note_of_adapter(path, model); !note.empty()) warn(path + ": " + note);
    }
  }
  gates_.reset();
  nlohmann::json done = call(load_);
  if (protocol::was_cancelled(done)) throw Error({.code = ExitCode::cancelled, .found = "cancelled while loading"});
  offer_ = protocol::offer_of_load(greeting_.offer, done, protocol::model_from_event(done).n_layers);
  return done;
}

Asked EngineJob::asked(const RunRequest& request) {
  if (!gates_) {
    gates_.emplace();
    for (std::size_t i = 0; i < load_.gates.size(); ++i)
      gates_->push_back(gate_ref(load_.gates[i], i < options_.gates.size() ? options_.gates[i] : ""));
  }
  return {.request = request,
          .by_text = request.prompt_ids.empty(),
          .origin = {.kind = request.answer_ids ? RunOrigin::Kind::replay : RunOrigin::Kind::drawn},
          .gates = *gates_,
          .engine = options_.engine};
}

std::string EngineJob::run(const ModelInfo& model, const RunRequest& request, RunRecord& record,
                           const std::function<void()>& on_step) {
  const RunRequest sent = protocol::fitted(offer_, request);
  record = start_record(model, asked(sent), offer_.recorder());
  try {
    const nlohmann::json done = call(sent, [&](const nlohmann::json& event) {
      protocol::apply_event(record, event);
      if (on_step) on_step();
    });
    return done.value("text", "");
  } catch (const Error& error) {
    finish_run(record, RunStatus::failed, line_in_files(error));
    throw;
  }
}

std::optional<Tokenizer> tokenizer_of(const std::string& model) {
  try {
    return Tokenizer::load(model);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> gates_for(const EngineJobOptions& options, const std::string& model,
                                   std::span<const PolicySpec> policies) {
  std::vector<std::string> given = options.gates;
  if (!options.is_elsewhere()) return gates_to_load(model, given, policies);
  for (std::string& text : given) {
    const auto known = known_gates(model);
    const auto found = std::ranges::find(known, text, &KnownGate::name);
    if (found != known.end()) text = found->path.string();
  }
  return given;
}

std::string model_for(const EngineJobOptions& options, const std::string& model) {
  return options.is_elsewhere() ? model_folder_or(model) : model_folder(model);
}

}  // namespace kvscope::app

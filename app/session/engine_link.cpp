#include "app/session/engine_link.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/engine_client/run_setup.h"
#include "app/support/usage.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/seconds_since.h"

namespace kvscope::app {
namespace {
constexpr int kTokensToMeasure = 4;                // the first steps warm up
constexpr std::chrono::seconds kSilence(10);       // as the command line has it
constexpr const char* kStarting = "starting ...";  // a run that the engine has not answered yet

std::string amount_done(const TaskProgress& progress) {
  if (progress.phase == "load")  // bytes
    return fixed_text(100 * progress.value / progress.max, 0) + " %, " + fixed_text(progress.value / 1e6, 0) + " of " +
           fixed_text(progress.max / 1e6, 0) + " MB";
  return fixed_text(progress.value, 0) + " / " + fixed_text(progress.max, 0);
}

}  // namespace

std::string_view to_string(EngineState state) {
  constexpr std::string_view kNames[] = {"none", "starting", "loading", "ready", "running", "dead"};
  return kNames[static_cast<int>(state)];
}

double TaskProgress::rate() const {
  if (phase == "decode" && value - start_value < kTokensToMeasure) return 0;
  const double seconds = seconds_since(phase_start);
  return seconds > 0.05 ? (value - start_value) / seconds : 0;
}

std::string TaskProgress::line() const {
  if (max <= 0) return text.empty() ? phase : phase + ", " + text;
  std::string line = phase + " " + amount_done(*this);
  if (tokens_per_s > 0) line += ", " + rate_text(tokens_per_s);
  const double per_second = rate();
  if (per_second <= 0 || value >= max) return line;
  const long left = std::lround(std::clamp((max - value) / per_second, 0.0, 3.6e6));
  return line + ", " + std::to_string(left / 60) + (left % 60 < 10 ? ":0" : ":") + std::to_string(left % 60) + " left";
}

EngineLink::EngineLink(Options options, Messages& messages, Revision& revision, Worker& background)
    : options_(std::move(options)),
      messages_(messages),
      revision_(revision),
      background_(background),
      assembler_(std::make_shared<RunAssembler>()) {}

int EngineLink::pid() const { return client_ && !client_->ended() ? client_->pid() : 0; }

// ------------------------------------------------------------------------------------------------ what it is asked

void EngineLink::start() {
  if (client_ && !client_->ended()) return;
  discard();
  try {
    client_ = std::make_unique<EngineClient>(
        EngineClient::Options{.command = options_.command,
                              .wake = options_.wake,
                              .sink = [assembler = assembler_, heard = heard_](const nlohmann::json& event) {
                                *heard = std::chrono::steady_clock::now();
                                return assembler->take(event);
                              }});
    state_ = EngineState::starting;
    asked_at_ = std::chrono::steady_clock::now();
  } catch (const Error& error) {
    state_ = EngineState::dead;
    messages_.add_engine_error(
        std::string("The engine did not start: ") + error.what() + ". You can still open traces.", "Try again");
  }
  revision_.rise();
}

// The last events of an engine must not be taken for those of the next one, which counts its requests from 1 again:
// each has an assembler of its own.
void EngineLink::discard() {
  if (!client_) return;
  pass_snapshot();
  run_cut_off_ = run_cut_off_ || run_in_progress();
  assembler_ = std::make_shared<RunAssembler>();
  load_request_ = run_request_ = question_ = -1;
  model_.reset();
  client_->ask_to_quit();  // several at a time, if loads follow each other quickly: at the end each would be waited for
  background_.post(
      [old = std::shared_ptr<EngineClient>(std::move(client_))]() -> Worker::Finish {
        old->stop();
        return [] {};
      },
      [](const std::string&) {});
}

void EngineLink::load(const std::string& path) {
  check_idle();
  start();
  options_.load.model = path;
  model_.reset();
  if (state_ != EngineState::dead) request_load();
}

bool EngineLink::reload_with(std::vector<std::string> gates) {
  if (gates == gates_to_load()) return false;
  check_idle();
  set_gates(std::move(gates));
  load(std::string(model_path()));
  return true;
}

void EngineLink::request_load() {
  cancel_question();
  state_ = EngineState::loading;
  load_request_ = client_->request(options_.load);
  asked_at_ = std::chrono::steady_clock::now();
  revision_.rise();
}

void EngineLink::check_idle() const {
  if (run_in_progress()) usage_error("model", "a run is in progress", "", "stop it first");
}

void EngineLink::check_ready() const {
  if (run_in_progress()) usage_error("run", "a run is in progress", "", "stop it first");
  if (!client_ || !model_) usage_error("run", "no model is loaded");
  if (state_ != EngineState::ready)
    usage_error(
        "run",
        state_ == EngineState::dead ? "the engine has stopped" : "the engine is " + std::string(to_string(state_)), "",
        state_ == EngineState::dead ? "restart it" : "wait until it is ready");
}

bool has_weights_of(const ModelInfo& model, const std::string& name, const std::string& weights_hash) {
  if (weights_hash.empty() || model.weights_hash.empty()) return model.name == name;
  return model.weights_hash == weights_hash;
}

std::string EngineLink::why_not_ask(const RunRecord& run, std::string_view service) const {
  if (run_in_progress()) return "Available when the run ends.";
  if (is_loading()) return "The model is loading ...";
  if (!model_) return "This needs the model. Open " + run.model.name + " first.";
  if (!has_weights_of(*model_, run.model.name, run.model.weights_hash))
    return "This run used another model. Open " + run.model.name + ".";
  if (state_ != EngineState::ready) return "The engine stopped. Restart it.";
  return protocol::why_no_service(offer_, service);
}

void EngineLink::ask(const protocol::Request& question, Answer answer) {
  check_ready();
  check_offered(offer_, question);
  question_ = client_->request(question);
  asked_at_ = std::chrono::steady_clock::now();
  answer_ = std::move(answer);
}

void EngineLink::cancel_question() {
  if (client_ && question_pending()) client_->cancel(question_);
}

void EngineLink::begin_run(const RunRequest& request, RunRecord record) {
  check_offered(offer_, request);
  cancel_question();
  run_cut_off_ = false;
  run_request_ = client_->next_id();
  assembler_->begin(run_request_, std::move(record));
  client_->request_with_id(request, run_request_);
  state_ = EngineState::running;
  asked_at_ = std::chrono::steady_clock::now();
  progress_ = {.phase = kStarting, .phase_start = asked_at_};
  revision_.rise();
}

void EngineLink::change_policy(const PolicySpec& policy) {
  if (!client_ || !run_in_progress()) return;
  const protocol::PolicyRequest request{run_request_, policy.written()};
  check_offered(offer_, request);
  client_->request(request);
}

void EngineLink::cancel_run() {
  if (!client_ || !run_in_progress()) return;
  client_->cancel(run_request_);
  messages_.notify("stopping at the next token");
}

// ------------------------------------------------------------------------------------------------ what it says

std::string EngineLink::silence() const {
  if (!client_ || !(run_in_progress() || question_pending() || is_loading())) return "";
  const auto silent = std::chrono::steady_clock::now() - std::max(asked_at_, heard_->load());
  if (silent < kSilence) return "";
  return "no answer from the engine for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silent).count()) + " s";
}

std::string EngineLink::progress_line() const {
  const std::string silent = silence();
  return silent.empty() ? progress_.line() : silent;
}

void EngineLink::poll() {
  pass_snapshot();
  if (std::string silent = silence(); silent != silence_said_) {
    silence_said_ = std::move(silent);
    revision_.rise();
  }
  if (client_) {
    for (const nlohmann::json& event : client_->take_events()) {
      pass_snapshot();  // facts before the event that ends them
      try {
        handle(event);
      } catch (const std::exception& error) {  // an engine is not trusted to be well
        messages_.add_engine_fault(std::string("The engine sent an unexpected message: ") + error.what());
      }
    }
  }
  if (const auto broken = assembler_->take_broken()) {
    pass_snapshot();
    if (client_ && run_in_progress()) client_->cancel(run_request_);
    messages_.add_engine_fault(*broken);
  }
}

void EngineLink::pass_snapshot() {
  auto snapshot = assembler_->take_snapshot();
  if (!snapshot) return;
  follow(*snapshot->run);
  options_.on_snapshot(std::move(*snapshot));
}

void EngineLink::follow(const RunRecord& run) {
  if (!run_in_progress() || run.status != RunStatus::running) return;
  if (progress_.phase == kStarting && run.n_tokens() > 0) {
    enter_phase("prefill", 0);
    progress_.text = std::to_string(run.prompt_len) + (run.prompt_len == 1 ? " token" : " tokens");
  }
  if (run.n_queries < run.prompt_len || run.n_queries == 0) return;
  const double decoded = run.n_tokens() - run.prompt_len;
  enter_phase("decode", decoded);
  // Behind the first new token the oracle reads the whole prompt: what is left is measured from the second one on.
  if (progress_.start_value < 2) {
    progress_.phase_start = std::chrono::steady_clock::now();
    progress_.start_value = decoded;
  }
  const bool measured = run.timings.decode_steps >= kTokensToMeasure && run.timings.decode_s > 0;
  progress_.tokens_per_s = measured ? run.timings.decode_steps / run.timings.decode_s : 0;
  progress_.value = decoded;
  progress_.max = run.n_positions - run.prompt_len;
}

void EngineLink::enter_phase(const std::string& phase, double value) {
  if (phase == progress_.phase) return;
  progress_ = {.phase = phase, .phase_start = std::chrono::steady_clock::now(), .start_value = value};
}

void EngineLink::handle(const nlohmann::json& event) {
  const std::string type = event.value("type", "");
  if (question_pending() && event.value("id", -1) == question_) {
    if (!ends_question(event)) return;
  } else if (type == "hello") {
    greeted(event);
  } else if (type == "progress") {
    set_progress(event);
  } else if (type == "log") {
    messages_.log(event.value("text", ""));
  } else if (type == "warning") {
    messages_.log("warning: " + event.value("text", ""));
    messages_.add_banner({.kind = Banner::Kind::warning, .text = event.value("text", "")});
  } else if (type == "done") {
    request_done(event);
  } else if (type == "error") {
    request_failed(event);
  } else if (type == "ended") {
    ended(event);
  }
  revision_.rise();
}

bool EngineLink::ends_question(const nlohmann::json& event) {
  const std::string type = event.value("type", "");
  if (type != "done" && type != "error") return false;  // how far it is
  question_ = -1;
  const Answer answer = std::exchange(answer_, {});
  if (type == "error") {
    answer(nullptr, protocol::error_from_event(event).what());
  } else {
    answer(protocol::was_cancelled(event) ? nullptr : &event, "");
  }
  return true;
}

void EngineLink::greeted(const nlohmann::json& event) {
  const EngineGreeting greeting = EngineGreeting::read(event);
  messages_.log("engine " + greeting.engine);
  if (state_ == EngineState::starting) state_ = EngineState::ready;
  greeted_ = offer_ = greeting.offer;
  if (options_.on_offer) options_.on_offer();
  try {
    greeting.check_version();
  } catch (const Error& error) {
    messages_.add_banner({.kind = Banner::Kind::error, .text = error.what()});
  }
}

void EngineLink::request_done(const nlohmann::json& event) {
  const int id = event.value("id", -1);
  if (id == load_request_) {
    load_request_ = -1;
    loaded_ = options_.load;
    model_ = protocol::model_from_event(event);
    gates_ = protocol::gates_from_event(event);
    offer_ = protocol::offer_of_load(greeted_, event, model_->n_layers);
    state_ = EngineState::ready;
    progress_ = {};
    messages_.log("loaded " + model_->name + " (" + model_->architecture + ", " + model_->dtype + ") on " +
                  model_->device);
    if (options_.on_model) options_.on_model();  // last: it may ask for another load
  } else if (id == run_request_) {
    run_request_ = -1;
    state_ = EngineState::ready;
    progress_ = {};
    options_.on_run_done();
  }
}

void EngineLink::request_failed(const nlohmann::json& event) {
  const Error error = protocol::error_from_event(event);
  const int id = event.value("id", -1);
  messages_.log(std::string("error: ") + error.what());
  if (id == load_request_) return load_failed(error);
  if (id == run_request_) {
    run_request_ = -1;
    state_ = EngineState::ready;
    messages_.add_banner({.kind = Banner::Kind::error, .text = std::string("The run failed. ") + error.what()});
  } else {
    messages_.add_banner({.kind = Banner::Kind::warning, .text = error.what()});
  }
  progress_ = {};
}

bool EngineLink::go_back() {
  if (!loaded_ || (loaded_->model == options_.load.model && loaded_->gates == options_.load.gates)) return false;
  options_.load = *loaded_;
  return true;
}

// An engine that refuses a folder at first sight has kept its model and answers at once; one that began to read has not.
void EngineLink::load_failed(const Error& error) {
  load_request_ = -1;
  state_ = EngineState::ready, progress_ = {};
  const bool other_gates = loaded_ && loaded_->model == options_.load.model;
  const bool back = go_back();
  messages_.add_banner(
      {.kind = Banner::Kind::error,
       .text = std::string(other_gates ? "The gate could not be loaded. " : "The model could not be loaded. ") +
               error.what() + (back ? ". The previous model stays open." : ""),
       .command = other_gates ? "" : "model.open",
       .button = other_gates ? "" : "Open another model"});
  if (!back) return;
  request_load();
  if (options_.on_return) options_.on_return();
}

void EngineLink::ended(const nlohmann::json& event) {
  const bool was_running = run_in_progress();
  run_cut_off_ = run_cut_off_ || was_running;
  // A model that ends the engine would do so again at every restart.
  if (load_request_ >= 0 && go_back() && options_.on_return) options_.on_return();
  load_request_ = run_request_ = question_ = -1;
  state_ = EngineState::dead;
  progress_ = {};
  const EngineEnd end = EngineEnd::read(event);
  if (end.expected) return;
  for (const std::string& line : end.said) messages_.log("engine: " + line);
  std::string text = "The engine " + end_words(end.reason) + ".";
  if (const std::string torch = end.missing_torch(); !torch.empty())
    text = "The engine cannot start: " + torch + ".";
  else if (!end.said.empty())
    text += " Its last message: " + escape_for_terminal(end.said.back()) + ".";
  if (was_running) text += " All decoded tokens are kept.";
  messages_.add_engine_error(text, was_running ? "Restart and resume" : "Restart engine",
                             was_running ? "run.resume" : "engine.restart");
}

void EngineLink::set_progress(const nlohmann::json& event) {
  // What an engine says of the prompt may come after the first tokens of the answer, which tell that it is over.
  if (run_in_progress() && progress_.phase == "decode") return;
  enter_phase(event.value("phase", ""), 0);
  progress_.value = event.value("value", 0.0);
  progress_.max = event.value("max", 0.0);
  progress_.text = event.value("text", "");
}

}  // namespace kvscope::app

#include "app/session/session.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/session/run_setup.h"
#include "app/session/trace_open.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/what_if.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kLogLines = 1000;
constexpr std::size_t kRecentFiles = 12;
constexpr int kMaxOpenedRuns = 64;                   // of one trace; a list of thousands helps nobody
constexpr std::size_t kMaxCountedPrompt = 1u << 20;  // bytes; longer ones are not counted while typing

}  // namespace

std::string_view to_string(EngineState state) {
  switch (state) {
    case EngineState::none:
      return "none";
    case EngineState::starting:
      return "starting";
    case EngineState::loading:
      return "loading";
    case EngineState::ready:
      return "ready";
    case EngineState::running:
      return "running";
    case EngineState::dead:
      return "dead";
  }
  return "?";
}

double TaskProgress::rate() const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - phase_start).count();
  return seconds > 0.05 ? value / seconds : 0;
}

Session::Session(Options options)
    : options_(std::move(options)),
      assembler_(std::make_shared<RunAssembler>()),
      previews_(options_.wake),
      files_(options_.wake) {
  parameters_.policy = PolicySpec::parse("kvpop:keep=25%");
}

Session::~Session() = default;

// ------------------------------------------------------------------------------------------------ engine

void Session::start_engine() {
  if (engine_ && !engine_->ended()) return;
  discard_engine();
  try {
    EngineClient::Options options;
    options.command = options_.engine_command;
    options.wake = options_.wake;
    options.sink = [assembler = assembler_](const nlohmann::json& event) { return assembler->take(event); };
    engine_ = std::make_unique<EngineClient>(std::move(options));
    engine_state_ = EngineState::starting;
  } catch (const Error& error) {
    engine_state_ = EngineState::dead;
    add_banner(
        {.kind = Banner::Kind::error,
         .text = std::string("The engine could not be started: ") + error.what() + ". Traces can still be opened.",
         .command = "engine.restart",
         .button = "Try again"});
  }
  changed();
}

// An engine that hangs takes a second to be given up: that is done elsewhere. Its last events must not be taken for
// those of the next one, which counts its requests from 1 again: each engine has an assembler of its own.
void Session::discard_engine() {
  if (!engine_) return;
  take_snapshot();
  assembler_ = std::make_shared<RunAssembler>();
  files_.post(
      [old = std::shared_ptr<EngineClient>(std::move(engine_))]() -> Worker::Finish {
        old->stop();
        return [] {};
      },
      [](const std::string&) {});
}

void Session::end_active_run(const std::string& message) {
  for (RunEntry& entry : runs_) {
    if (entry.id != active_run_) continue;
    auto ended = std::make_shared<RunRecord>(*entry.run);
    ended->status = RunStatus::failed;
    ended->message = message;
    entry.run = std::move(ended);
    ++entry.revision;
  }
  update_shown();
}

void Session::restart_engine() {
  std::erase_if(banners_, [](const Banner& banner) { return banner.command == "engine.restart"; });
  const std::string path = model_path_;
  discard_engine();
  if (run_in_progress()) end_active_run("the engine was restarted");
  load_request_ = active_request_ = -1;
  model_.reset();
  start_engine();
  if (!path.empty()) open_model(path);
}

void Session::open_model(const std::string& path) {
  if (run_in_progress())
    throw Error({.code = ExitCode::usage, .file = "model", .found = "a run is in progress", .hint = "cancel it first"});
  start_engine();
  model_path_ = path;
  model_.reset();
  if (engine_state_ == EngineState::dead) return;
  engine_state_ = EngineState::loading;
  load_request_ = engine_->request({{"type", "load"},
                                    {"model", path},
                                    {"device", options_.device},
                                    {"dtype", options_.dtype},
                                    {"gates", options_.gates}});
  remember_file(path);
  files_.post(
      [this, path]() -> Worker::Finish {
        auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(path));
        return [this, path, tokenizer] {
          if (path != model_path_) return;
          tokenizer_ = tokenizer;
          count_prompt_tokens();
          changed();
        };
      },
      [](const std::string&) {});  // the engine reads it too and says what is wrong
  changed();
}

bool Session::poll() {
  const std::uint64_t before = revision_;
  take_snapshot();
  if (engine_) {
    for (const nlohmann::json& event : engine_->take_events()) {
      take_snapshot();  // facts before the event that ends them
      try {
        handle(event);
      } catch (const std::exception& error) {  // an engine is not trusted to be well
        add_banner({.kind = Banner::Kind::error,
                    .text = std::string("The engine sent a message that does not fit: ") + error.what(),
                    .command = "engine.restart",
                    .button = "Restart engine"});
      }
    }
  }
  for (Worker* worker : {&previews_, &files_}) {
    for (auto& finish : worker->take_finished()) finish();
  }
  if (auto broken = assembler_->take_broken()) {
    take_snapshot();
    if (engine_ && active_request_ >= 0) engine_->cancel(active_request_);
    add_banner({.kind = Banner::Kind::error, .text = *broken, .command = "engine.restart", .button = "Restart engine"});
  }
  return revision_ != before;
}

void Session::handle(const nlohmann::json& event) {
  const std::string type = event.value("type", "");
  if (type == "hello") {
    if (const int version = event.value("version", 0); version != protocol::kVersion) {
      add_banner({.kind = Banner::Kind::error,
                  .text = "The engine speaks protocol version " + std::to_string(version) + ", this window version " +
                          std::to_string(protocol::kVersion) + ". Use both from the same release."});
    }
    log("engine " + event.value("engine", "?") + ", torch " + event.value("torch", "?") + ", " +
        event.value("device", "?"));
    if (engine_state_ == EngineState::starting) engine_state_ = EngineState::ready;
  } else if (type == "progress") {
    set_progress(event);
  } else if (type == "log") {
    log(event.value("text", ""));
  } else if (type == "done") {
    handle_done(event);
  } else if (type == "error") {
    request_failed(event);
  } else if (type == "ended") {
    engine_ended(event);
  }
  changed();
}

void Session::handle_done(const nlohmann::json& event) {
  const int id = event.value("id", -1);
  if (id == load_request_) {
    load_request_ = -1;
    model_ = protocol::model_info_from_json(event.at("model"));
    engine_state_ = EngineState::ready;
    log("loaded " + model_->name + " (" + model_->architecture + ", " + model_->dtype + ") on " + model_->device);
    progress_ = {};
  } else if (id == active_request_) {
    active_request_ = -1;
    engine_state_ = EngineState::ready;
    progress_ = {};
    if (const RunEntry* run = find_run(active_run_)) {
      const RunTimings& timings = run->run->timings;
      char text[160];
      std::snprintf(text, sizeof text, "run %d %s: %d tokens, prefill %.2f s, %.1f tok/s", run->id,
                    std::string(to_string(run->run->status)).c_str(), run->run->n_tokens(), timings.prefill_s,
                    timings.decode_s > 0 ? timings.decode_steps / timings.decode_s : 0.0);
      log(text);
    }
    request_preview();
  }
}

void Session::request_failed(const nlohmann::json& event) {
  const Error error = protocol::error_from_event(event);
  const int id = event.value("id", -1);
  log(std::string("error: ") + error.what());
  if (id == load_request_) {
    load_request_ = -1;
    engine_state_ = EngineState::ready;
    add_banner({.kind = Banner::Kind::error,
                .text = std::string("The model could not be loaded. ") + error.what(),
                .command = "model.open",
                .button = "Open another model"});
  } else if (id == active_request_) {
    active_request_ = -1;
    engine_state_ = EngineState::ready;
    add_banner({.kind = Banner::Kind::error, .text = std::string("The run failed. ") + error.what()});
  } else {
    add_banner({.kind = Banner::Kind::warning, .text = error.what()});
  }
  progress_ = {};
}

void Session::engine_ended(const nlohmann::json& event) {
  const bool was_running = active_request_ >= 0;
  load_request_ = active_request_ = -1;
  engine_state_ = EngineState::dead;
  progress_ = {};
  if (event.value("expected", false)) return;
  std::string last;
  for (const auto& line : event.value("stderr", std::vector<std::string>())) {
    if (!line.empty()) last = line, log("engine: " + line);
  }
  std::string text = "The engine stopped: " + event.value("reason", "") + ".";
  if (!last.empty()) text += " It last said: " + escape_for_terminal(last) + ".";
  if (was_running) text += " Everything up to the last token is kept.";
  std::erase_if(banners_, [](const Banner& banner) { return banner.command == "engine.restart"; });
  add_banner({.kind = Banner::Kind::error, .text = text, .command = "engine.restart", .button = "Restart engine"});
}

void Session::set_progress(const nlohmann::json& event) {
  const std::string phase = event.value("phase", "");
  if (phase != progress_.phase) progress_.phase_start = std::chrono::steady_clock::now();
  progress_.phase = phase;
  progress_.value = event.value("value", 0.0);
  progress_.max = event.value("max", 0.0);
  progress_.text = event.value("text", "");
}

// ------------------------------------------------------------------------------------------------ runs

RunRequest Session::request_of_parameters() const {
  RunRequest request;
  request.prompt = parameters_.prompt;
  request.raw = parameters_.raw;
  request.policy = parameters_.policy;
  request.max_tokens = parameters_.max_tokens;
  request.sampling = parameters_.sampling;
  return request;
}

void Session::start(RunRequest request, Slot slot) {
  if (run_in_progress())
    throw Error({.code = ExitCode::usage, .file = "run", .found = "a run is in progress", .hint = "cancel it first"});
  if (!engine_ || !model_) throw Error({.code = ExitCode::usage, .file = "run", .found = "no model is loaded"});
  if (engine_state_ != EngineState::ready) {
    throw Error({.code = ExitCode::usage,
                 .file = "run",
                 .found = "the engine is " + std::string(to_string(engine_state_)),
                 .hint = "restart it"});
  }
  if (request.prompt.empty() && request.prompt_ids.empty()) {
    throw Error(
        {.code = ExitCode::usage, .file = "prompt", .found = "nothing in it", .expected = "at least one token"});
  }
  clear_preview();
  auto record = start_record(*model_, request);
  active_run_ = add_run(std::make_shared<const RunRecord>(record), "");
  (slot == Slot::a ? a_id_ : b_id_) = active_run_;
  if (slot == Slot::a) b_id_ = 0;
  active_request_ = engine_->next_id();
  assembler_->begin(active_request_, std::move(record));
  engine_->request_with_id(protocol::to_json(request, active_request_), active_request_);
  engine_state_ = EngineState::running;
  progress_ = {.phase = "prefill", .phase_start = std::chrono::steady_clock::now()};
  if (slot == Slot::a) selection_.token = -1, selection_.follow = true, selection_.q = -1;
  update_shown();
  changed();
}

void Session::start_run() { start(request_of_parameters(), Slot::a); }

void Session::decode_again() {
  const RunEntry* first = a();
  if (!first || first->run->prompt_len == 0) return start_run();
  RunRequest request = request_of_parameters();
  request.prompt = first->run->prompt_text;
  request.prompt_ids.assign(first->run->ids.begin(), first->run->ids.begin() + first->run->prompt_len);
  request.sampling = first->run->sampling;
  request.max_tokens = std::max(0, first->run->n_positions - first->run->prompt_len);
  start(std::move(request), Slot::b);
}

void Session::replay() {
  const RunEntry* first = a();
  if (!first || first->run->n_tokens() == 0)
    throw Error({.code = ExitCode::usage, .file = "replay", .found = "no run A"});
  RunRequest request = request_of_parameters();
  request.prompt = first->run->prompt_text;
  request.prompt_ids = first->run->ids;
  request.max_tokens = 0;
  start(std::move(request), Slot::b);
}

void Session::cancel() {
  if (!engine_ || active_request_ < 0) return;
  engine_->cancel(active_request_);
  notify("cancelling at the next token");
}

void Session::take_snapshot() {
  auto snapshot = assembler_->take_snapshot();
  if (!snapshot) return;
  for (RunEntry& entry : runs_) {
    if (entry.id != active_run_) continue;
    entry.run = std::move(snapshot->run);
    entry.revision = snapshot->revision;
  }
  update_shown();
  changed();
}

int Session::add_run(std::shared_ptr<const RunRecord> run, std::string trace_path) {
  runs_.push_back({.id = next_run_id_++, .run = std::move(run), .revision = 0, .trace_path = std::move(trace_path)});
  return runs_.back().id;
}

const RunEntry* Session::find_run(int id) const {
  const auto it = std::ranges::find(runs_, id, &RunEntry::id);
  return it == runs_.end() ? nullptr : &*it;
}

void Session::show(int a_id, int b_id) {
  if ((a_id != 0 && !find_run(a_id)) || (b_id != 0 && !find_run(b_id))) {
    throw Error({.code = ExitCode::usage, .file = "run", .found = "no such run"});
  }
  const bool new_a = a_id != a_id_;
  a_id_ = a_id;
  b_id_ = b_id == a_id ? 0 : b_id;
  if (new_a) clear_preview();
  update_shown();
  changed();
}

void Session::swap() {
  if (b_id_ != 0) show(b_id_, a_id_);
}

void Session::remove_run(int id) {
  if (id == active_run_ && run_in_progress())
    throw Error({.code = ExitCode::usage, .file = "run", .found = "it is in progress", .hint = "cancel it first"});
  std::erase_if(runs_, [id](const RunEntry& entry) { return entry.id == id; });
  if (b_id_ == id) b_id_ = 0;
  if (a_id_ == id) a_id_ = std::exchange(b_id_, 0), clear_preview();
  update_shown();
  changed();
}

// Run A without tokens is not on show: its views would have nothing to stand on.
void Session::update_shown() {
  shown_a_ = shown_b_ = {};
  const auto shown = [](const RunEntry* entry, const char* label) {
    views::ShownRun result;
    if (entry && entry->run->n_tokens() > 0)
      result = {.run = entry->run, .preview = false, .label = label, .revision = entry->revision};
    return result;
  };
  shown_a_ = shown(a(), "A");
  if (!shown_a_.run) {
    clamp_selection();
    return;
  }
  if (preview_) {
    shown_b_ = {.run = preview_, .preview = true, .label = "preview of A", .revision = preview_revision_};
  } else {
    shown_b_ = shown(b(), "B");
  }
  const auto& model_a = shown_a_.run->model;
  if (shown_b_.run &&
      (shown_b_.run->model.n_layers != model_a.n_layers || shown_b_.run->model.n_kv_heads != model_a.n_kv_heads)) {
    shown_b_ = {};  // views compare head by head
  }
  clamp_selection();
}

int Session::divergence() const {
  if (!shown_a_.run || !shown_b_.run) return -1;
  const auto &a = shown_a_.run->ids, &b = shown_b_.run->ids;
  const auto n = std::min(a.size(), b.size());
  const auto [at, other] = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin());
  return at == a.begin() + static_cast<std::ptrdiff_t>(n) ? -1 : static_cast<int>(at - a.begin());
}

// ------------------------------------------------------------------------------------------------ parameters, preview

void Session::set_prompt(std::string text) {
  parameters_.prompt = std::move(text);
  count_prompt_tokens();
  changed();
}

void Session::count_prompt_tokens() {
  const bool countable = tokenizer_ && parameters_.prompt.size() <= kMaxCountedPrompt;
  prompt_tokens_ = countable ? static_cast<int>(tokenizer_->encode_with_special(parameters_.prompt).size()) : -1;
}

void Session::set_max_tokens(int n) {
  parameters_.max_tokens = std::clamp(n, 0, 1 << 24);
  changed();
}

int Session::n_positions() const {
  if (const RunEntry* first = a();
      first && first->run->n_positions > 0 && first->run->prompt_text == parameters_.prompt) {
    return first->run->n_positions;
  }
  return prompt_tokens_ < 0 ? 0 : prompt_tokens_ + parameters_.max_tokens;
}

void Session::set_policy(const PolicySpec& policy) {
  if (policy == parameters_.policy) return;
  parameters_.policy = policy;
  request_preview();
  changed();
}

void Session::apply_policy() {
  if (!engine_ || active_request_ < 0) return;
  engine_->request({{"type", "policy"}, {"target", active_request_}, {"policy", parameters_.policy.to_string()}});
}

void Session::clear_preview() {
  ++preview_ticket_;  // an answer that is under way comes too late
  preview_ = nullptr;
  preview_pending_ = false;
  preview_note_.clear();
  update_shown();
}

void Session::request_preview() {
  clear_preview();
  const RunEntry* first = a();
  if (!first || first->run->n_tokens() == 0 || first->run->policy == parameters_.policy) return;
  if (const RunEntry* second = b(); second && second->run->policy == parameters_.policy)
    return;  // measured: no need to guess
  preview_pending_ = true;
  const std::uint64_t ticket = preview_ticket_;
  previews_.post_only(
      [this, ticket, run = first->run, policy = parameters_.policy]() -> Worker::Finish {
        auto preview = std::make_shared<const RunRecord>(what_if(*run, policy));
        return [this, ticket, preview] {
          if (ticket != preview_ticket_) return;
          preview_ = preview;
          preview_pending_ = false;
          ++preview_revision_;
          update_shown();
          changed();
        };
      },
      [this, ticket](const std::string& text) {
        if (ticket != preview_ticket_) return;
        preview_pending_ = false;
        preview_note_ = text;
        changed();
      });
}

std::string Session::command_line() const {
  return run_command_line(model_path_.empty() ? "MODEL" : model_path_, request_of_parameters());
}

// ------------------------------------------------------------------------------------------------ files

void Session::open_trace(const std::string& path) {
  in_background("open " + path, [this, path]() -> Worker::Finish {
    const TraceInfo info = trace_info(path, options_.trace_program);
    std::vector<std::shared_ptr<const RunRecord>> runs;
    for (int i = 0; i < std::min(info.n_runs, kMaxOpenedRuns); ++i) {
      runs.push_back(std::make_shared<const RunRecord>(load_any_trace(path, i, options_.trace_program)));
    }
    return [this, path, runs, total = info.n_runs] {
      if (runs.empty()) throw Error({.file = path, .found = "a trace without runs"});
      int first = 0;
      for (const auto& run : runs) {
        const int id = add_run(run, path);
        if (first == 0) first = id;
      }
      if (parameters_.prompt.empty() || !model_) set_prompt(runs[0]->prompt_text);
      show(first, 0);
      remember_file(path);
      notify(std::to_string(runs.size()) + (total > kMaxOpenedRuns ? " of " + std::to_string(total) : "") +
             " run(s) from " + path);
    };
  });
}

void Session::save_trace(int run_id, const std::string& path, bool overwrite) {
  const RunEntry* entry = find_run(run_id);
  if (!entry || entry->run->n_tokens() == 0)
    throw Error({.code = ExitCode::usage, .file = "trace", .found = "no run to save"});
  if (run_id == active_run_ && run_in_progress()) {
    throw Error({.code = ExitCode::usage,
                 .file = "trace",
                 .found = "the run is in progress",
                 .hint = "save it when it has ended"});
  }
  in_background("save " + path, [this, run_id, path, overwrite, run = entry->run]() -> Worker::Finish {
    kvscope::save_trace(path, *run, overwrite);
    return [this, run_id, path] {
      for (RunEntry& saved : runs_) {
        if (saved.id == run_id) saved.trace_path = path;
      }
      remember_file(path);
      notify("saved " + path);
    };
  });
}

void Session::in_background(std::string what, Worker::Job job) {
  files_.post(
      [this, what, job = std::move(job)]() -> Worker::Finish {
        Worker::Finish finish = job();
        return [this, what, finish = std::move(finish)] {
          try {
            finish();
          } catch (const Error& error) {
            add_banner({.kind = Banner::Kind::error, .text = error.what()});
          }
          changed();
        };
      },
      [this, what](const std::string& text) {
        log("error: " + what + ": " + text);
        add_banner({.kind = Banner::Kind::error, .text = text});
      });
}

void Session::remember_file(const std::string& path) {
  std::erase(recent_, path);
  recent_.push_front(path);
  if (recent_.size() > kRecentFiles) recent_.pop_back();
}

// ------------------------------------------------------------------------------------------------ selection, messages

void Session::clamp_selection() {
  const RunRecord* run = shown_a_.run.get();
  if (!run) return;
  selection_.layer = std::clamp(selection_.layer, 0, std::max(0, run->model.n_layers - 1));
  selection_.kv_head = std::clamp(selection_.kv_head, 0, std::max(0, run->model.n_kv_heads - 1));
  selection_.token = std::clamp(selection_.token, -1, run->n_tokens() - 1);
  selection_.hovered_token = std::clamp(selection_.hovered_token, -1, run->n_tokens() - 1);
  selection_.q = selection_.follow ? -1 : std::clamp(selection_.q, -1, run->n_tokens() - 1);
}

void Session::add_banner(Banner banner) {
  banner.id = next_banner_id_++;
  // The same message twice is one message: a failing request that is repeated must not fill the window.
  std::erase_if(banners_, [&](const Banner& other) { return other.text == banner.text; });
  banners_.push_back(std::move(banner));
  if (banners_.size() > 4) banners_.erase(banners_.begin());
  changed();
}

void Session::dismiss_banner(int id) {
  std::erase_if(banners_, [id](const Banner& banner) { return banner.id == id; });
  changed();
}

void Session::log(std::string line) {
  log_.push_back(utc_now().substr(11, 8) + "  " + line);
  if (log_.size() > kLogLines) log_.pop_front();
  changed();
}

void Session::notify(std::string text) {
  log(text);
  notice_ = std::move(text);
  notice_time_ = std::chrono::steady_clock::now();
}

}  // namespace kvscope::app

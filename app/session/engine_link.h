#pragma once
// The engine's life: started, loading a model, running, dead, started again. What goes wrong is a message.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "app/engine_client/engine_client.h"
#include "app/session/messages.h"
#include "app/session/run_assembler.h"
#include "app/session/worker.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/record/run_request.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {

enum class EngineState { none, starting, loading, ready, running, dead };
std::string_view to_string(EngineState state);

/// Whether `model` has that hash, or that name where one of the hashes is not known.
bool has_weights_of(const ModelInfo& model, const std::string& name, const std::string& weights_hash);

/// "133 tok/s", "2.4 tok/s", "0.21 tok/s": a slow run has a rate too.
inline std::string rate_text(double tokens_per_s) {
  const int decimals = tokens_per_s < 0.1 ? 3 : tokens_per_s < 1 ? 2 : tokens_per_s < 10 ? 1 : 0;
  return fixed_text(tokens_per_s, decimals) + " tok/s";
}

struct TaskProgress {
  std::string phase, text;
  double value = 0, max = 0;
  std::chrono::steady_clock::time_point phase_start;
  double start_value = 0;   // when the phase began
  double tokens_per_s = 0;  // of a decode, over the time of its steps alone; 0 if not known
  double rate() const;      // of value, per second since the phase began; 0 if not known
  /// "decode 336 / 1300, 133 tok/s, 0:07 left"; without an amount "prefill, 1372 tokens"
  std::string line() const;
};

class EngineLink {
 public:
  struct Options {
    std::string command;         // empty: kvscope-engine beside this executable
    protocol::LoadRequest load;  // of every model, but for its path
    std::function<void()> wake;  // called from other threads when poll() has something to do
    std::function<void(RunAssembler::Snapshot)> on_snapshot;  // the run in progress has grown
    std::function<void()> on_run_done;                        // the engine has answered the run
    std::function<void()> on_model;                           // a model is ready
    std::function<void()> on_offer;                           // the engine has greeted: its offer is known
    std::function<void()> on_return;  // the model asked for could not be loaded: the one before is, again
  };
  /// `background` gives up engines that hang: that takes a second.
  EngineLink(Options options, Messages& messages, Revision& revision, Worker& background);

  void poll();
  void start();  // no-op while one is alive
  /// Lets the engine go, with its model and its run.
  void discard();
  /// Loads a model, starting the engine first if there is none. If it cannot be loaded, the one that was is again, with
  /// its gates. Throws Error (usage) while a run is in progress.
  void load(const std::string& path);
  /// Loads its model again with these gates. False if it has them, in this order. Throws as load().
  bool reload_with(std::vector<std::string> gates);
  /// Of the next load: files and folders with gates. Those that are asked for go before those beside the model.
  void set_gates(std::vector<std::string> gates) { options_.load.gates = std::move(gates); }
  const std::vector<std::string>& gates_to_load() const { return options_.load.gates; }
  const std::string& command() const { return options_.command; }  // empty: kvscope-engine of this program
  const protocol::LoadRequest& to_load() const { return options_.load; }
  /// Throws Error (usage) while a run is in progress.
  void check_idle() const;
  /// Throws Error (usage) unless a run could begin now.
  void check_ready() const;
  /// `record`: what its facts are added to. Throws as check_offered().
  void begin_run(const RunRequest& request, RunRecord record);
  /// Of the run in progress, from its next step on. What came of it is an event of the run, or a line in the log.
  void change_policy(const PolicySpec& policy);
  void cancel_run();

  /// A question between runs, one at a time; the engine must be ready. `answer` gets the `done` event, or nothing and why;
  /// neither if it was cancelled: a run or a load that begins does that.
  using Answer = std::function<void(const nlohmann::json* done, const std::string& why_not)>;
  void ask(const protocol::Request& question, Answer answer);
  bool question_pending() const { return question_ >= 0; }
  /// Why the engine cannot be asked about this run's tokens now, a sentence; empty if it can, once no question is pending.
  /// `service`: one of protocol::services() that the question needs.
  std::string why_not_ask(const RunRecord& run, std::string_view service) const;
  void cancel_question();

  EngineState state() const { return state_; }
  /// Or starting.
  bool is_loading() const { return state_ == EngineState::loading || state_ == EngineState::starting; }
  bool run_in_progress() const { return run_request_ >= 0; }
  /// The last run ended with its engine, or with its restart.
  bool run_cut_off() const { return run_cut_off_; }
  const std::string& model_path() const { return options_.load.model; }
  const std::optional<ModelInfo>& model() const { return model_; }
  const GatesOfModel& gates() const { return gates_; }  // what those of the model say
  /// What it can do, with the model that is loaded; of KVScope's own engine everything, and so before any has greeted.
  const protocol::EngineOffer& offer() const { return offer_; }
  const TaskProgress& progress() const { return progress_; }
  /// "waiting for the engine, silent for 12 s", of one that has something to do; else empty.
  std::string silence() const;
  /// What goes on, with its rate and the time left unless the engine is silent; empty: nothing.
  std::string progress_line() const;
  int pid() const;  // 0 without an engine

 private:
  /// Asks for what is in options_.load.
  void request_load();
  /// Of the model that was there before the one that is asked for; false if none was, or it is that one.
  bool go_back();
  void load_failed(const Error& error);
  void pass_snapshot();
  void handle(const nlohmann::json& event);
  void greeted(const nlohmann::json& event);
  void request_done(const nlohmann::json& event);
  void request_failed(const nlohmann::json& event);
  void ended(const nlohmann::json& event);
  void set_progress(const nlohmann::json& event);
  /// Whether it ends the question; then it is answered.
  bool ends_question(const nlohmann::json& event);
  void enter_phase(const std::string& phase, double value);
  /// An engine tells of its prefill; how far it has decoded is seen from what it sends.
  void follow(const RunRecord& run);

  Options options_;
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  std::shared_ptr<RunAssembler> assembler_;  // shared with the reader's thread
  std::unique_ptr<EngineClient> client_;
  EngineState state_ = EngineState::none;
  std::optional<ModelInfo> model_;
  std::optional<protocol::LoadRequest> loaded_;  // the last that succeeded
  GatesOfModel gates_;
  protocol::EngineOffer greeted_, offer_;  // as it greeted; with the model that is loaded
  int load_request_ = -1, run_request_ = -1, question_ = -1;
  Answer answer_;
  bool run_cut_off_ = false;
  TaskProgress progress_;
  using Moment = std::atomic<std::chrono::steady_clock::time_point>;
  std::shared_ptr<Moment> heard_ = std::make_shared<Moment>();  // its last message; set by the reader's thread
  std::chrono::steady_clock::time_point asked_at_{};            // the last time that it got something to do
  std::string silence_said_;
};

}  // namespace kvscope::app

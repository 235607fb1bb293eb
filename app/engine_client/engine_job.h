#pragma once
// One engine for the length of a command: started, greeted, asked, and stopped, with progress on stderr and Ctrl+C
// passed on.

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/engine_client/engine_client.h"
#include "app/engine_client/progress.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

/// An engine that has greeted, for the first job that wants one.
struct StartedEngine {
  std::unique_ptr<EngineClient> client;
  EngineGreeting greeting;
  std::atomic_flag taken = {};  // jobs may be made in several threads
  /// Null: another job has it.
  std::unique_ptr<EngineClient> take() { return taken.test_and_set() ? nullptr : std::move(client); }
};

/// How an engine is started, and what it is given with every model.
struct EngineJobOptions {
  std::string engine = {};  // a shell command; empty: kvscope-engine beside this program
  std::string device = "auto", dtype = "auto";
  std::vector<std::string> gates = {};          // paths or names, as a user gives them
  std::vector<std::string> environment = {};    // "CUDA_VISIBLE_DEVICES=1"; only for an engine of this machine
  bool is_quiet = false;                        // nothing is printed but warnings
  bool shows_progress = true;                   // false: one of several engines, whose progress is not shown
  std::function<bool()> stop = {};              // true cancels, as Ctrl+C does
  std::shared_ptr<StartedEngine> started = {};  // instead of a new one, of the same command without an environment

  /// Whether the engine may be on another machine: then paths are not checked here.
  bool is_elsewhere() const { return !engine.empty(); }
};

/// The engine's end, which the user did not ask for.
class EngineStopped : public Error {
 public:
  using Error::Error;
};

class EngineJob {
 public:
  using Handler = std::function<void(const nlohmann::json& event)>;

  /// When the greeting is waited for. The engine ends with the thread that starts it, but any may wait.
  enum class Greeting { now, at_load };
  /// Starts the engine and waits for its greeting. Throws Error: it cannot be started, dies, or speaks another version.
  explicit EngineJob(EngineJobOptions options, Greeting when = Greeting::now);
  const EngineGreeting& greeting() const { return greeting_; }
  /// The engine, for another job; this one ends here.
  std::shared_ptr<StartedEngine> hand_over() &&;
  /// What it can do, with the model that is loaded.
  const protocol::EngineOffer& offer() const { return offer_; }

  /// With the gates of the options and those that the policies need (app/catalog/gates.h).
  ModelInfo load(const std::string& model, std::span<const PolicySpec> policies);
  /// With these gates and no others; its `done` event, which says of the gates what `load` leaves out.
  nlohmann::json load_with(const std::string& model, const std::vector<std::string>& gates);
  /// Sends `request` and returns its `done` event. Throws Error (usage) for what the engine does not offer, before it
  /// is sent; `handler` sees its events before (`done` included). The first Ctrl+C cancels the request, as does
  /// options.stop(); it then ends with status "cancelled". Throws Error for an `error` event, a dead engine, an event
  /// that does not fit.
  nlohmann::json call(const protocol::Request& request, const Handler& handler = {});
  /// A run, recorded in `record`; on_step is called after each event has been applied. Returns the answer's text: it
  /// ends before a stop string and an end-of-text token, both of which `record` has. When it throws, `record` has what
  /// came until then and says failed.
  std::string run(const ModelInfo& model, const RunRequest& request, RunRecord& record,
                  const std::function<void()>& on_step = {});
  /// A run among others, and the number that its giver knows it by.
  struct NumberedRun {
    std::size_t number;
    RunRequest request;
  };
  using NextRun = std::function<std::optional<NumberedRun>()>;
  using EndOfRun = std::function<void(std::size_t number, RunRecord record, const std::optional<Error>& error)>;
  /// Up to `n` runs at once, and as many as the engine takes. `next` is asked while there is room: nothing if there is
  /// no run now. `ended` gets what each came to, in the order in which they end. Returns when none is under way and
  /// `next` has none. Ctrl+C cancels all. Throws what call() throws for what concerns more than one run, and what `next` and
  /// `ended` throw.
  void run_all(const ModelInfo& model, int n, const NextRun& next, const EndOfRun& ended);
  /// What a run of this request is recorded with: the request, and the gates that are loaded.
  Asked asked(const RunRequest& request);
  Progress& progress() { return progress_; }
  /// Off: the engine's own progress is not shown, for a command that shows one of many requests.
  void show_engine_progress(bool on) { show_engine_progress_ = on; }

 private:
  void greet();
  /// The next event, or nothing after a while. Throws Error if it is the engine's end.
  std::optional<nlohmann::json> wait_event();
  /// When an engine that was asked to cancel is given up.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  /// wait_event() for one of these requests, whose progress and warnings are shown. Cancels them when the user stops.
  std::optional<nlohmann::json> wait_event_of(std::span<const int> ids, Deadline& give_up);
  bool is_stopped() const;
  [[noreturn]] void throw_end(const EngineEnd& end);
  void say_silence();
  void warn(const std::string& text);

  Progress progress_;
  std::chrono::steady_clock::time_point last_event_ = std::chrono::steady_clock::now();
  bool silence_said_ = false;
  bool show_engine_progress_ = true;
  EngineJobOptions options_;
  protocol::LoadRequest load_;
  std::optional<std::vector<GateRef>> gates_;  // that are loaded; their files are read when a run is first recorded
  std::unique_ptr<EngineClient> client_;
  EngineGreeting greeting_;
  protocol::EngineOffer offer_;
};

/// Nothing if it cannot be read from here: the model may be on another machine.
std::optional<Tokenizer> tokenizer_of(const std::string& model);
/// The folder of `model`, which is a path or a name (app/catalog/models.h). Throws Error (bad input) unless it is
/// there, which spares starting an engine for a typing error. A path that is not known here stays as it is if the
/// engine is elsewhere.
std::string model_for(const EngineJobOptions& options, const std::string& model);
/// The gates to load: those of the options, by path or name, and those that the policies need. For an engine elsewhere
/// only those that are named. Throws Error.
std::vector<std::string> gates_for(const EngineJobOptions& options, const std::string& model,
                                   std::span<const PolicySpec> policies);

}  // namespace kvscope::app

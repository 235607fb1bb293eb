#pragma once
// One engine for the length of a command: started, greeted, asked, and stopped, with progress on stderr and Ctrl+C
// passed on.

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/progress.h"
#include "app/process/engine_client.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app {

/// --engine, --device, --dtype, --quiet: every command that needs an engine has them.
inline constexpr OptionSpec kEngineOption = {"engine", "COMMAND",
                                             "start this instead of kvscope-engine, e.g. \"ssh gpu01 kvscope-engine\""};
inline constexpr OptionSpec kGateOption = {"gate", "PATH|NAME",
                                           "scorer, gate or head directory (kvscope gates); repeatable", true};
inline constexpr OptionSpec kOracleOption = {"oracle", "SPEC",
                                             "mass=mean|sum|rms|max,weight=,... (docs/explanation/oracle.md)"};
inline constexpr OptionSpec kOutputErrorOption = {"output-error", "",
                                                  "measure how eviction changes the attention output (one more pass)"};
inline constexpr OptionSpec kChunkOption = {"chunk", "N",
                                            "the policy acts after every N tokens, from the text's start (1)"};
inline constexpr OptionSpec kDeviceOption = {"device", "auto|cpu|cuda|cuda:N", "where to compute (auto)"};
inline constexpr OptionSpec kDtypeOption = {"dtype", "auto|float32|bfloat16",
                                            "number type of weights and cache (auto)"};
inline constexpr OptionSpec kQuietOption = {"quiet", "", "no progress on stderr"};

/// For a command that has several engines.
struct EngineJobOptions {
  std::vector<std::string> environment =
      {};                           // "CUDA_VISIBLE_DEVICES=1", for an engine of this machine; not with --engine
  bool is_quiet = false;            // shows nothing by itself
  std::function<bool()> stop = {};  // cancels as Ctrl+C does
};

class EngineJob {
 public:
  using Handler = std::function<void(const nlohmann::json& event)>;

  /// Starts the engine and waits for its greeting. Throws Error: it cannot be started, dies, or speaks another version.
  explicit EngineJob(const Arguments& arguments, EngineJobOptions options = {});
  const EngineGreeting& greeting() const { return greeting_; }

  /// With the gates that --gate names and those that the policies need (app/process/gates.h).
  ModelInfo load(const std::string& model, std::span<const PolicySpec> policies);
  /// With these gates and no others; its `done` event, which says of the gates what `load` leaves out.
  nlohmann::json load_with(const std::string& model, const std::vector<std::string>& gates);
  /// Sends `request` and returns its `done` event; `handler` sees its events before (`done` included). The first Ctrl+C
  /// cancels the request, as does a stdout that takes no more of what `handler` writes; it then ends with status
  /// "cancelled". Throws Error for an `error` event, a dead engine, an event that does not fit.
  nlohmann::json call(const protocol::Request& request, const Handler& handler = {});
  /// A run, recorded in `record`; on_step is called after each event has been applied. Returns the answer's text: it
  /// ends before a stop string and an end-of-text token, both of which `record` has. When it throws, `record` has what
  /// came until then and says failed.
  std::string run(const ModelInfo& model, const RunRequest& request, RunRecord& record,
                  const std::function<void()>& on_step = {});
  /// What a run of this request is recorded with: the request, and the gates that are loaded.
  Asked asked(const RunRequest& request);
  Progress& progress() { return progress_; }
  /// Off: the engine's own progress is not shown, for a command that shows one of many requests.
  void show_engine_progress(bool on) { show_engine_progress_ = on; }

 private:
  /// The next event, or nothing after a while. Throws Error if it is the engine's end.
  std::optional<nlohmann::json> wait_event();
  [[noreturn]] void throw_end(const EngineEnd& end);
  void say_silence();
  void warn(const std::string& text);

  Progress progress_;
  std::chrono::steady_clock::time_point last_event_ = std::chrono::steady_clock::now();
  bool silence_said_ = false;
  bool show_engine_progress_ = true;
  const Arguments& arguments_;
  EngineJobOptions options_;
  protocol::LoadRequest load_;
  std::optional<std::vector<GateRef>> gates_;  // that are loaded; their files are read when a run is first recorded
  EngineClient client_;
  EngineGreeting greeting_;
};

/// Nothing if it cannot be read from here: the model may be on another machine.
std::optional<Tokenizer> tokenizer_of(const std::string& model);
/// The folder of a MODEL, which is a path or a name (app/process/models.h). Throws Error (bad input) unless it is there;
/// spares starting an engine for a typing error. Leaves what it does not know as it is when --engine is given: the path may
/// be on another machine then.
std::string model_argument(const Arguments& arguments, const std::string& model);
/// What the engine is to read of gates: those of --gate, by path or name, and those that the policies need. With --engine the
/// machine that has them may be another one, and only what is named is passed on. Throws Error.
std::vector<std::string> gate_arguments(const Arguments& arguments, const std::string& model,
                                        std::span<const PolicySpec> policies);

}  // namespace kvscope::app

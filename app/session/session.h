#pragma once
// The state of the program: engine, model, runs, parameters, selection, messages. No window in it: the window draws it,
// commands change it, tests drive it.
//
// One thread owns a Session. poll() takes in what other threads have made ready; nothing here waits for engine or disk.

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/process/engine_client.h"
#include "app/session/run_assembler.h"
#include "app/session/worker.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"
#include "views/frame/view_state.h"

namespace kvscope::app {

/// What the next run will be.
struct Parameters {
  std::string prompt;
  bool raw = true;
  PolicySpec policy;
  SamplingSpec sampling;
  int max_tokens = 64;
};

enum class EngineState { none, starting, loading, ready, running, dead };
std::string_view to_string(EngineState state);

/// A run in the list: measured here or read from a trace.
struct RunEntry {
  int id = 0;  // 1, 2, ... in the order they came
  std::shared_ptr<const RunRecord> run;
  std::uint64_t revision = 0;
  std::string trace_path;  // where it was saved or read, empty if nowhere
};

/// Something the person should know, with one thing to do about it.
struct Banner {
  enum class Kind { info, warning, error };
  int id = 0;
  Kind kind = Kind::info;
  std::string text;
  std::string command;  // "engine.restart"; empty if there is nothing to press
  std::string button;   // "Restart engine"
};

struct TaskProgress {
  std::string phase, text;
  double value = 0, max = 0;
  std::chrono::steady_clock::time_point phase_start;
  double rate() const;  // of value, per second since the phase began; 0 if not known
};

class Session {
 public:
  struct Options {
    std::string engine_command;  // empty: kvscope-engine beside this executable
    std::string device = "auto", dtype = "auto";
    std::vector<std::string> gates;                // files and folders, see docs/gates.md
    std::string trace_program = "/proc/self/exe";  // reads traces in a child process (--trace-child); empty: read here
    std::function<void()> wake;                    // called from other threads when poll() has something to do
  };
  explicit Session(Options options);
  ~Session();

  /// Takes in engine events, snapshots and finished work. Returns whether anything changed.
  bool poll();

  // --- engine and model
  void start_engine();  // no-op while one is alive
  void restart_engine();
  /// Loads a model, starting the engine first if there is none. The answer comes through poll().
  void open_model(const std::string& path);
  EngineState engine_state() const { return engine_state_; }
  const std::string& engine_command() const { return options_.engine_command; }
  const std::string& model_path() const { return model_path_; }
  const std::optional<ModelInfo>& model() const { return model_; }
  const TaskProgress& progress() const { return progress_; }

  // --- runs
  /// Throws Error (usage) if a run is in progress or there is no model; the parameters' policy must fit.
  void start_run();
  /// The prompt of A under the present parameters; becomes B.
  void decode_again();
  /// The tokens of A, teacher-forced, under the present policy; becomes B: comparable cell by cell to the end.
  void replay();
  void cancel();
  bool run_in_progress() const { return active_request_ >= 0; }
  const std::vector<RunEntry>& runs() const { return runs_; }
  const RunEntry* find_run(int id) const;
  const RunEntry* a() const { return find_run(a_id_); }
  const RunEntry* b() const { return find_run(b_id_); }
  void show(int a_id, int b_id);  // 0: none
  void swap();
  void remove_run(int id);
  /// The two runs on show, preview included. Valid until the next call that changes the session.
  const views::ShownRun* shown_a() const { return shown_a_.run ? &shown_a_ : nullptr; }
  const views::ShownRun* shown_b() const { return shown_b_.run ? &shown_b_ : nullptr; }
  /// First position at which the tokens of A and B differ; -1 if they do not.
  int divergence() const;

  // --- parameters and preview
  const Parameters& parameters() const { return parameters_; }
  void set_prompt(std::string text);
  void set_policy(const PolicySpec& policy);
  /// Asks the engine to go on with these parameters from the next step of the run in progress on. What came of it is an
  /// event of the run, or a line in the log.
  void apply_policy();
  // asks for a preview if A was decoded under another one
  void set_sampling(const SamplingSpec& sampling) { parameters_.sampling = sampling, changed(); }
  void set_max_tokens(int n);
  void set_raw(bool raw) { parameters_.raw = raw, changed(); }
  /// Asks for what-if of A under the present policy, unless A or B was decoded under it.
  void request_preview();
  void clear_preview();
  bool preview_shown() const { return preview_ != nullptr; }
  bool preview_pending() const { return preview_pending_; }
  const std::string& preview_note() const { return preview_note_; }  // why there is none
  /// Positions that a budget refers to: prompt and answer to come. 0 while the prompt's length is not known.
  int n_positions() const;
  int prompt_tokens() const { return prompt_tokens_; }  // -1 while not known (no tokenizer can be read from here)
  std::string command_line() const;                     // of the parameters, as they are

  // --- files; the work is done elsewhere, a message or banner tells its end
  void open_trace(const std::string& path);
  void save_trace(int run_id, const std::string& path, bool overwrite);
  void in_background(std::string what, Worker::Job job);

  // --- selection, messages
  views::Selection& selection() { return selection_; }
  const views::Selection& selection() const { return selection_; }
  void clamp_selection();
  const std::vector<Banner>& banners() const { return banners_; }
  void add_banner(Banner banner);
  void dismiss_banner(int id);
  void log(std::string line);
  const std::deque<std::string>& log_lines() const { return log_; }
  /// A short message that the status line shows for some seconds.
  void notify(std::string text);
  const std::string& notice() const { return notice_; }
  std::chrono::steady_clock::time_point notice_time() const { return notice_time_; }
  const std::deque<std::string>& recent_files() const { return recent_; }
  bool files_busy() const { return files_.busy(); }

  /// Rises with every change that is worth drawing.
  std::uint64_t revision() const { return revision_; }
  nlohmann::json state() const;

  /// Parameters, selection and open traces, for the next start.
  nlohmann::json to_json() const;
  void restore(const nlohmann::json& json, const std::string& file);

 private:
  enum class Slot { a, b };
  void changed() { ++revision_; }
  void handle(const nlohmann::json& event);
  void handle_done(const nlohmann::json& event);
  void discard_engine();
  void end_active_run(const std::string& message);
  void engine_ended(const nlohmann::json& event);
  void request_failed(const nlohmann::json& event);
  void start(RunRequest request, Slot slot);
  RunRequest request_of_parameters() const;
  void take_snapshot();
  int add_run(std::shared_ptr<const RunRecord> run, std::string trace_path);
  void update_shown();
  void set_progress(const nlohmann::json& event);
  void remember_file(const std::string& path);
  void count_prompt_tokens();

  Options options_;
  std::shared_ptr<RunAssembler> assembler_;  // shared with the reader's thread
  std::unique_ptr<EngineClient> engine_;
  EngineState engine_state_ = EngineState::none;
  std::string model_path_;
  std::optional<ModelInfo> model_;
  int load_request_ = -1, active_request_ = -1, active_run_ = 0;
  TaskProgress progress_;

  std::vector<RunEntry> runs_;
  int next_run_id_ = 1, a_id_ = 0, b_id_ = 0;
  views::ShownRun shown_a_, shown_b_;

  Parameters parameters_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // of the model's folder, if it can be read
  int prompt_tokens_ = -1;
  std::shared_ptr<const RunRecord> preview_;
  std::uint64_t preview_revision_ = 0;
  bool preview_pending_ = false;
  std::string preview_note_;
  std::uint64_t preview_ticket_ = 0;

  views::Selection selection_;
  std::vector<Banner> banners_;
  int next_banner_id_ = 1;
  std::deque<std::string> log_, recent_;
  std::string notice_;
  std::chrono::steady_clock::time_point notice_time_{};
  std::uint64_t revision_ = 1;

  Worker previews_, files_;  // last: their threads end before what they refer to
};

}  // namespace kvscope::app

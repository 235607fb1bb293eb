#pragma once
// The state of the program without a window: the window draws it, commands change it, tests drive it. Each subject is a
// part in its own file. Session connects them and starts the runs.
//
// One thread owns a Session. poll() takes in what other threads have made ready; nothing here waits for engine or disk.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/session/attention_probe.h"
#include "app/session/chat_answers.h"
#include "app/session/engine_link.h"
#include "app/session/files.h"
#include "app/session/folder_list.h"
#include "app/session/measured_heads.h"
#include "app/session/messages.h"
#include "app/session/open_model.h"
#include "app/session/open_point.h"
#include "app/session/query_probe.h"
#include "app/session/remote_traces.h"
#include "app/session/run_list.h"
#include "app/session/run_summaries.h"
#include "app/session/studies.h"
#include "app/session/study_jobs.h"
#include "app/session/traces.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

class Session {
 public:
  struct Options {
    std::string engine_command;  // empty: kvscope-engine beside this executable
    std::string device = "auto", dtype = "auto";
    std::vector<std::string> gates;                // files and folders, see docs/reference/gates.md
    std::string trace_program = "/proc/self/exe";  // reads traces in a child process (--trace-child); empty: read here
    std::string program = "/proc/self/exe";        // kvscope, for the studies that the window starts
    std::vector<StudyForm> study_forms;            // what may be started
    std::function<void()> wake;                    // called from other threads when poll() has something to do
  };
  explicit Session(Options options);

  /// Takes in engine events, snapshots and finished work. Returns whether anything changed.
  bool poll();
  /// Rises with every change that is worth drawing.
  std::uint64_t revision() const { return revision_.value; }

  Messages& messages() { return messages_; }
  Files& files() { return files_; }
  const Files& files() const { return files_; }
  RemoteTraces& remote() { return remote_; }
  const RemoteTraces& remote() const { return remote_; }
  EngineLink& engine() { return engine_; }
  const EngineLink& engine() const { return engine_; }
  NextRun& next_run() { return next_run_; }
  const NextRun& next_run() const { return next_run_; }
  const Parameters& parameters() const { return next_run_.parameters(); }
  const Preview& preview() const { return preview_; }
  views::Selection& selection() { return selection_; }
  const views::Selection& selection() const { return selection_; }
  Runs& runs() { return runs_; }
  const Runs& runs() const { return runs_; }
  PolicyChoice& policy() { return policy_; }
  const PolicyChoice& policy() const { return policy_; }

  ChatAnswers& chat() { return chat_; }
  const ChatAnswers& chat() const { return chat_; }
  OpenModel& model() { return model_; }
  const OpenModel& model() const { return model_; }
  FolderList& folders() { return folders_; }

  void restart_engine();  // and loads its model again

  /// The way in of every run. `rest`: what the engine is asked for instead, of a run that goes on.
  void start(Asked asked, Runs::Place place, const std::optional<RunRequest>& rest = std::nullopt);
  /// Throws Error (usage) if a run is in progress or there is no model; the parameters' policy must fit.
  void start_run();
  /// More tokens of A's answer, as many as the parameters say; becomes A. Throws Error (usage) if it has none to go on from.
  void continue_run();
  /// A run that its engine's end has cut off goes on from its last token, as another run in the same place; the engine is
  /// restarted first if it has to be. A notice at the end compares the decisions up to there with those before. Throws Error
  /// (usage) if no run was cut off, or one is in progress.
  void resume_run();
  bool can_resume() const;
  /// Another way from query q of A on, its tokens up to there being the prompt; becomes B.
  void fork_run(int q);
  /// The prompt of A under the present parameters; becomes B.
  void decode_again();
  /// The tokens of A, teacher-forced, under this policy; becomes B: comparable cell by cell to the end.
  void replay(const PolicySpec& policy);
  bool run_in_progress() const { return engine_.run_in_progress(); }

  RunSummaries& summaries() { return summaries_; }
  RunList& run_list() { return run_list_; }
  AttentionProbe& attention() { return attention_; }
  QueryProbe& query_attention() { return query_attention_; }

  std::string command_line() const;  // of the parameters, as they are

  Studies& studies() { return studies_; }
  StudyJobs& study_jobs() { return study_jobs_; }
  const StudyJobs& study_jobs() const { return study_jobs_; }
  Traces& traces() { return traces_; }
  OpenPoint& point() { return point_; }
  MeasuredHeads& heads() { return heads_; }
  /// What scripts and tests see of it.
  nlohmann::json state() const;

 private:
  void go_on_with_cut_run();
  void raise_budget(RunRequest& request);
  void run_done();

  Revision revision_;
  Messages messages_;
  Files files_;
  RemoteTraces remote_;
  NextRun next_run_;
  views::Selection selection_;
  Preview preview_;
  Runs runs_;
  EngineLink engine_;
  PolicyChoice policy_;
  OpenModel model_;
  AttentionProbe attention_;
  QueryProbe query_attention_;
  RunSummaries summaries_;
  RunList run_list_{runs_, summaries_, revision_};
  FolderList folders_;
  struct CutRun {
    bool due = false;                      // goes on when the model is there
    std::shared_ptr<const RunRecord> run;  // what the run in progress goes on from
  } cut_run_;
  ChatAnswers chat_;
  Traces traces_;
  Studies studies_;
  StudyJobs study_jobs_;
  OpenPoint point_{*this};
  MeasuredHeads heads_{*this};
  Worker background_;  // last: its thread ends before what its jobs refer to
};

}  // namespace kvscope::app

#pragma once
// The state of the program without a window: the window draws it, commands change it, tests drive it. Each subject is a
// part with a file of its own; Session is what ties them.
//
// One thread owns a Session. poll() takes in what other threads have made ready; nothing here waits for engine or disk.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/session/attention_probe.h"
#include "app/session/chat_answer.h"
#include "app/session/engine_link.h"
#include "app/session/files.h"
#include "app/session/folder_list.h"
#include "app/session/gate_probe.h"
#include "app/session/messages.h"
#include "app/session/model_choices.h"
#include "app/session/model_gates.h"
#include "app/session/model_list.h"
#include "app/session/next_run.h"
#include "app/session/preview.h"
#include "app/session/remote_traces.h"
#include "app/session/run_list.h"
#include "app/session/run_summaries.h"
#include "app/session/shown_runs.h"
#include "app/session/studies.h"
#include "app/session/study_form.h"
#include "app/session/study_jobs.h"
#include "views/frame/view_state.h"

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
  const GateProbe& gate_probe() const { return gate_probe_; }
  views::Selection& selection() { return selection_; }
  const views::Selection& selection() const { return selection_; }
  void clamp_selection();

  /// Whether that model's folder is on this machine: looked for when another one is asked about or opened, not in each frame.
  /// NextRun::set_budgets(), and the preview under them.
  void set_budgets(const std::string& text);
  bool has_model_folder(const std::string& path) const;
  /// Where that model lies on this machine: where its trace says, else the known model of its name. Empty: it is not found.
  std::string folder_of(const ModelInfo& model) const;
  /// Whether tokenizer and gates of the open model's folder are still being read. The engine may be ready before them, but a
  /// run is not: its prompt is not counted, so that its budget could not be raised to its floor, and a gate that is found for
  /// the policy has the model loaded once more.
  bool reads_model_folder() const;
  /// Policy, gates and chat are as they were when this model was open before, and a notice says what is another for it.
  /// `gates`: in the place of its own.
  void open_model(const std::string& path, const std::vector<std::string>& gates = {});
  /// What was chosen for each model but the one that the parameters are for now.
  const ModelChoices& choices() const { return choices_; }
  /// Those of the last session, whose parameters were for `model`.
  void set_choices(const ModelChoices& choices, const std::string& model);
  ModelList& models() { return models_; }
  FolderList& folders() { return folders_; }
  /// Gates that go with the open model, as far as this machine can see.
  const ModelGates& gates() const { return gates_; }
  /// Has policies decide by the gate of that name before any other of its kind: the model is loaded again unless the
  /// engine has it in that place. Throws Error (usage) for a name that is not there, or while a run is in progress.
  void use_gate(const std::string& name);
  /// Reads a gate's file or folder in the background and, if it goes with the open model, loads it and sets a policy that
  /// reads it; else a banner says why not. Throws Error (usage) without a model and while a run is in progress.
  void add_gate(const std::string& path);
  /// The same, and sets a policy that reads it unless the present one does.
  void choose_gate(const std::string& name);
  /// The model is loaded again without that gate, which stays among those that were found. Throws Error (usage) for one that
  /// is not loaded, lies beside the model (the engine reads those in any case) or decides now, and while a run is in progress.
  void drop_gate(const std::string& name);
  /// The gate by which the present policy decides; nullptr if it reads none, or none that was found.
  const GateFacts* used_gate() const;
  bool is_used(const GateFacts& gate) const { return used_gate() == &gate; }
  void restart_engine();  // and loads its model again

  /// Throws Error (usage) if a run is in progress or there is no model; the parameters' policy must fit.
  void start_run();
  /// More tokens of A's answer, as many as the parameters say; becomes A. Throws Error (usage) if it has none to go on from.
  void continue_run();
  /// A run that its engine's end has cut off goes on from its last token under the same policy, as a run of its own in the same
  /// place; the engine is restarted first if it has to be. When it ends, a word says whether the decisions up to
  /// there came out as before. Throws Error (usage) if no run was cut off, or one is in progress.
  void resume_run();
  bool can_resume() const;
  /// Another way from query q of A on, its tokens up to there being the prompt; becomes B.
  void fork_run(int q);
  /// The run that answers the conversation's last turn, or has answered it; nullptr if none does. After an undo that turn is
  /// an earlier one.
  const RunEntry* chat_run() const;
  /// Of the session before: the run that answered the chat's last turn, or was about to if it is A.
  void take_up_chat();
  /// Told of it as it comes; an empty one: nobody.
  void on_chat(ChatListener listener) { chat_listener_ = std::move(listener); }
  /// The whole of that answer, also where the run only goes on from another one's.
  std::string chat_answer() const;
  /// The answer of a run of the list; of chat_run() the whole of it.
  std::string answer_of(const RunEntry& entry) const;
  int chat_tokens_before() const;  // of that answer, which other runs made
  /// The prompt of A under the present parameters; becomes B.
  void decode_again();
  /// The tokens of A, teacher-forced, under the present policy; becomes B: comparable cell by cell to the end.
  void replay();
  void replay(const PolicySpec& policy);
  /// The tokens of A under a hybrid whose global heads are those of this head directory: it is loaded as a gate first, and
  /// hybrid:heads=d is the parameters' policy from then on; becomes B. Throws Error (usage) with why_not_measure_heads().
  void measure_heads(const std::string& folder);
  std::string why_not_measure_heads() const;  // a sentence; empty: it is possible
  bool run_in_progress() const { return engine_.run_in_progress(); }

  const std::vector<RunEntry>& runs() const { return runs_.all(); }
  RunSummaries& summaries() { return summaries_; }
  /// For the views: what later queries give to the selected token of A.
  views::AskedAttention& attention() { return attention_.asked(); }
  /// After a frame: asks what its views looked at.
  void ask_attention();
  const RunEntry* find_run(int id) const { return runs_.find(id); }
  const RunEntry* a() const { return runs_.a(); }
  const RunEntry* b() const { return runs_.b(); }
  void show(int a_id, int b_id);  // 0: none
  void swap();
  /// Empty: it has no name of its own. Throws Error (usage) for a run that is not there.
  void rename_run(int id, const std::string& name);
  /// Off the list, not gone: set_removed_runs() can bring it back, forget_runs() can not.
  void remove_run(int id);
  std::set<int> removed_runs() const;
  /// These are off the list, all others on it; ids of no run are passed over.
  void set_removed_runs(const std::set<int>& ids);
  void forget_runs(const std::set<int>& ids);
  /// A run of an earlier session, under its id.
  void put_back_run(RunEntry entry);
  const RunList& run_list() const { return runs_; }
  /// Ids of runs to come, which are not those of runs that somebody still knows.
  void begin_run_ids_at(int next_id) { runs_.begin_ids_at(next_id); }
  /// The two runs on show, preview included. Valid until the next call that changes the session.
  const views::ShownRun* shown_a() const { return shown_.a(); }
  const views::ShownRun* shown_b() const { return shown_.b(); }
  int divergence() const { return shown_.divergence(); }

  /// Asks for a preview if A was decoded under another policy.
  void set_policy(const PolicySpec& policy);
  /// What the parameters' policy will be when it runs: what nobody wrote is the loaded gates' or, without a model, as A
  /// had it. A policy that these cannot complete stands as it was written; the run says why.
  PolicySpec policy_in_effect() const;
  /// Whether a run was decoded under that policy, by the gate that it would decide by now.
  bool has_parameters_policy(const RunRecord& run) const;
  /// Asks for what-if of A under the present policy, unless A or B was decoded under it. Scores that A did not record are
  /// asked of the engine's gates first.
  void request_preview();
  /// Of the last session, which had it in B's place: by what the engine says once it has the model, if it has none yet.
  void put_back_preview();
  /// Positions that a budget refers to: prompt and answer to come. 0 while the prompt's length is not known.
  int n_positions() const;
  std::string command_line() const;  // of the parameters, as they are

  // The work is done elsewhere, a message tells its end.
  /// Of a trace that is on the list, runs that are there as the file has them are not added again, and those that were
  /// taken off it come back.
  void open_trace(const std::string& path);
  void save_trace(int run_id, const std::string& path, bool overwrite);

  Studies& studies() { return studies_; }
  const Studies& studies() const { return studies_; }
  StudyJobs& study_jobs() { return study_jobs_; }
  const StudyJobs& study_jobs() const { return study_jobs_; }
  const std::vector<StudyForm>& study_forms() const { return study_forms_; }
  /// The run of the study's selected point as A: its trace if one was kept, else its text is read again under its policy, its
  /// gates and its number of tokens. Begins once it is known what there is. Throws Error (usage) with why_not_open_point().
  void open_study_point();
  std::string why_not_open_point() const;  // a sentence; empty: it is possible, or not known yet
  /// The model that the selected point was measured on. Throws Error if this machine does not have it.
  void open_study_model();

  /// A run that grows without an engine, for the bench of the window: becomes A, then grows with each call.
  void show_growing(std::shared_ptr<const RunRecord> run, std::uint64_t revision);

  /// What scripts and tests see of it.
  nlohmann::json state() const;

 private:
  /// Whether this run is the answer to the chat's last turn; then the turn is its, as far as it came.
  bool take_up_answer(const RunEntry& entry);
  /// The parameters become those of this model. keep_last: those of the one before are kept.
  void turn_to(const std::string& model, bool keep_last);
  /// The one that was asked for could not be loaded.
  void return_to_model();
  /// The tokenizer and the gates of the model's folder.
  void look_at_model();
  void take_gate(const GateFacts& facts);
  /// Those that were given for every model, and before them those added to this one.
  std::vector<std::string> gates_beside() const;
  /// `rest`: what the engine is asked for instead, of a run that goes on.
  void start(Asked asked, RunList::Place place, const std::optional<RunRequest>& rest = std::nullopt);
  RunOrigin from(RunOrigin::Kind kind, const RunEntry& entry, int q = -1) const;
  void go_on_with_cut_run();
  void compare_with_cut_run(const RunRecord& cut, const RunRecord& run);
  const ChatAnswer* answer_on_show() const;
  void begin_answer(std::string so_far, int tokens_before);
  void take_answer();
  void take_snapshot(RunAssembler::Snapshot snapshot);
  /// The map opens on a metric that varies over the heads of A, beside B on recall above chance, unless somebody chose one.
  void suggest_metric();
  void show_metric(Metric metric);
  void show_evicting_head(std::optional<views::KvHead> head);
  void begin_measuring();
  /// What has been asked of a study's point, as far as it can be done now.
  void go_on_with_point();
  void prepare_point_run();
  void begin_point_run();
  void compare_with_study();
  void raise_budget(RunRequest& request);
  /// " --gate ..." of those that the engine was given and that a run by the policy depends on.
  /// Those that a run under the policy is made with.
  std::vector<GateRef> gates_of(const PolicySpec& policy) const;
  PolicySpec policy_on_model(const PolicySpec& asked) const;
  bool is_measured_by(const RunRecord& run, const PolicySpec& policy) const;
  /// Of the gate that would decide now, on this run's model; empty: not known, or the model's own.
  std::string gate_name_for(const RunRecord& run) const;
  void run_done();
  /// Once a model is there and its gates are known: a policy that reads a gate becomes one that needs none, where there is none.
  void fit_policy();
  /// A policy that reads a gate which is found and not loaded has the first of them loaded.
  void load_missing_gate();
  void clear_preview();
  /// What is selected of A's text is not carried to another text.
  void leave_text_of_a();
  void update_shown();
  bool is_listed(const std::string& trace) const;
  void read_trace(const std::string& path, int first);
  /// Returns whether it is new.
  bool take_run(const std::string& path, std::shared_ptr<const RunRecord> run, int i);
  void bring_back_trace(const std::string& path);
  /// Those that were closed half-read and are on the list again.
  void read_on_traces();

  Revision revision_;
  Messages messages_;
  Files files_;
  RemoteTraces remote_;
  NextRun next_run_;
  RunList runs_;
  ShownRuns shown_;
  views::Selection selection_;
  std::pair<int, std::shared_ptr<const RunRecord>> selected_of_;  // id and run of the A that the selection was made on
  std::vector<std::string> given_gates_;                          // of every model: --gate
  std::vector<std::string> added_gates_;                          // of the model added_to_, the last in front
  std::string added_to_;
  ModelChoices choices_;
  std::string chosen_for_;  // the model that the parameters are for
  /// What the open model did not allow.
  struct Forced {
    bool raw = false;                  // it has no chat
    std::optional<PolicySpec> wanted;  // it has no gate for it: ...
    PolicySpec taken;                  // ... in its place
  } forced_;
  ModelGates gates_;
  ModelList models_;
  EngineLink engine_;
  AttentionProbe attention_;
  GateProbe gate_probe_;
  Preview preview_;
  RunSummaries summaries_;
  FolderList folders_;
  bool resume_due_ = false;                   // when the model is there
  bool preview_due_ = false;                  // then too: by another gate than before
  std::shared_ptr<const RunRecord> cut_run_;  // what the run in progress goes on from
  struct LookedFor {
    std::string path, open_model;
    bool is_there = false;
  };
  mutable LookedFor model_folder_;  // of has_model_folder()
  bool head_was_shown_ = false;     // show_evicting_head() has had its turn
  ChatAnswer chat_;
  std::vector<ChatAnswer> earlier_answers_;  // an undo shows them again; oldest first
  ChatListener chat_listener_;
  bool measuring_ = false;                // a head directory is being read for it
  int measured_run_ = 0;                  // id of A, to be replayed once the engine has the heads; 0: none
  std::map<std::string, int> half_read_;  // traces that were closed meanwhile: which run would have been next
  Studies studies_;
  std::vector<StudyForm> study_forms_;
  StudyJobs study_jobs_;
  bool point_due_ = false;                                  // its run is to be opened once it is known what there is
  std::optional<PointToRun> point_to_run_;                  // once the engine has its gates
  std::optional<std::pair<int, MeasuredPoint>> point_run_;  // id of the run that a point was opened as
  Worker background_;                                       // last: its thread ends before what its jobs refer to
};

}  // namespace kvscope::app

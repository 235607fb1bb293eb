#pragma once
// The open model: its folder, what was chosen for it and for those that were open before, and the gates that are added to it.

#include <string>
#include <vector>

#include "app/catalog/models.h"
#include "app/session/files.h"
#include "app/session/policy_choice.h"

namespace kvscope::app {

/// The models of this machine, looked for in the background: a cache on a slow disk must not stop a frame.
class ModelList {
 public:
  ModelList(Revision& revision, Worker& background) : revision_(revision), background_(background) {}

  /// Looks again, unless that is under way.
  void look();
  bool looking() const { return looking_; }
  /// As they were found last.
  const std::vector<KnownModel>& all() const { return all_; }

 private:
  Revision& revision_;
  Worker& background_;
  std::vector<KnownModel> all_;
  bool looking_ = false;
};

/// What was chosen for a model: opened again, it has its policy, its gates and its chat as they were.
struct ModelChoice {
  static constexpr std::size_t kMost = 20;  // that are kept

  std::string model;  // its folder
  PolicySpec policy;
  bool raw = true;                 // the prompt as it is, else as a chat
  std::vector<std::string> gates;  // that its engine was given
};

class OpenModel {
 public:
  /// `given_gates`: of every model, --gate.
  OpenModel(NextRun& next_run, EngineLink& engine, PolicyChoice& policy, Files& files, Messages& messages,
            ModelList known, std::vector<std::string> given_gates);

  /// Policy, gates (unless `gates` are given) and chat are as they were when this model was open before; a notice shows changes.
  void open(const std::string& path, const std::vector<std::string>& gates = {});
  /// The one that was asked for could not be loaded: the one before is open again.
  void go_back();
  /// Whether that model's folder is on this machine: looked for when another one is asked about or opened, not in each frame.
  bool has_folder(const std::string& path) const;
  /// Where that model lies on this machine: where its trace says, else the known model of its name. Empty: it is not found.
  std::string folder_of(const ModelInfo& model) const;
  /// Whether tokenizer and gates of the open model's folder are still being read. The engine may be ready before that, but a
  /// run is not: its prompt is not counted, and a gate that is found for the policy has the model loaded once more.
  bool reads_folder() const;
  /// The models of this machine.
  ModelList& known() { return known_; }

  /// For each model but the one that the parameters are for now; the newest last.
  const std::vector<ModelChoice>& choices() const { return choices_; }
  /// Those of the last session, whose parameters were for `model`.
  void set_choices(const std::vector<ModelChoice>& choices, const std::string& model);

  /// Reads a gate in the background. If it fits the open model, loads it and sets a policy that reads it; else a banner reports
  /// why not. Throws Error (usage) without a model and while a run is in progress.
  void add_gate(const std::string& path);
  /// PolicyChoice::use_gate(), and a policy that reads it unless the present one does.
  void choose_gate(const std::string& name);
  /// The model is loaded again without that gate, which stays among those that were found. Throws Error (usage) for one that
  /// is not loaded, lies beside the model (the engine reads those in any case) or decides now, and while a run is in progress.
  void drop_gate(const std::string& name);
  /// Loads a head directory in the place of the others of its folder.
  void load_heads(const GateFacts& heads);

 private:
  /// In the place of what was kept for that model; of too many the one that was kept longest ago goes.
  void keep(ModelChoice choice);
  const ModelChoice* find_choice(const std::string& model) const;
  /// The parameters become those of this model. keep_last: those of the one before are kept.
  void turn_to(const std::string& model, bool keep_last);
  /// Reads the tokenizer and the gates of the model's folder.
  void look();
  void take_gate(const GateFacts& facts);
  /// Those added to the open model.
  std::vector<std::string>& added();

  NextRun& next_run_;
  EngineLink& engine_;
  PolicyChoice& policy_;
  Files& files_;
  Messages& messages_;
  ModelList known_;
  std::vector<std::string> given_gates_;
  std::vector<std::string> added_gates_;  // of the model added_to_, the last in front
  std::string added_to_;
  std::vector<ModelChoice> choices_;
  std::string chosen_for_;   // the model that the parameters are for
  bool forced_raw_ = false;  // the open model has no chat
  struct LookedFor {
    std::string path, open_model;
    bool is_there = false;
  };
  mutable LookedFor folder_;  // of has_folder()
};

}  // namespace kvscope::app

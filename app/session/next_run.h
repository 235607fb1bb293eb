#pragma once
// What the next run will be.

#include <memory>
#include <optional>
#include <string>

#include "app/session/revision.h"
#include "app/session/worker.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/record/run_record.h"
#include "engine/core/record/run_request.h"

namespace kvscope::app {

/// All but the prompt. What is added here is kept and undone once it stands in app/workspace/state_fields.h.
struct RunSettings {
  bool raw = true;
  PolicySpec policy;
  SamplingSpec sampling;
  int max_tokens = 64;
};
struct Parameters : RunSettings {
  std::string prompt;
};

class NextRun {
 public:
  /// `background` reads tokenizers.
  NextRun(Revision& revision, Worker& background);

  /// Of a window that nobody has used yet.
  static Parameters defaults();
  const Parameters& parameters() const { return parameters_; }
  void set(Parameters parameters);
  void set_prompt(std::string text);
  void set_raw(bool raw);
  void set_policy(const PolicySpec& policy) { parameters_.policy = policy, revision_.rise(); }
  void set_sampling(const SamplingSpec& sampling) { parameters_.sampling = sampling, revision_.rise(); }
  void set_max_tokens(int n);

  /// Counts the prompt with the tokenizer of the model's folder from now on, if it can be read from here. A model that has
  /// no chat template gets the prompt as it is.
  void read_tokenizer(const std::string& model_path);
  /// The model has a chat template, known to us or not. False while that is not known.
  bool has_chat() const { return words_ && words_->has_template; }
  int prompt_tokens() const { return prompt_tokens_; }  // -1 while not known
  int n_positions() const;                              // prompt and answer to come; 0 while not known
  RunRequest request() const;
  /// The prompt and the sampling of `run`, under the present policy.
  RunRequest decode_again(const RunRecord& run) const;
  /// The tokens of `run`, teacher-forced, under the present policy: its prompt as a run has it, then its answer; the
  /// whole text under the policy if there is no answer.
  RunRequest replay(const RunRecord& run) const;

 private:
  void count_prompt();

  Revision& revision_;
  Worker& background_;
  Parameters parameters_;
  std::string tokenizer_path_;
  struct Words {
    Tokenizer tokenizer;
    bool has_template = false;
    std::optional<ChatTemplate> chat;
  };
  std::shared_ptr<const Words> words_;
  int prompt_tokens_ = -1;
};

}  // namespace kvscope::app

#pragma once
// The answers of an evaluation as a journal, the first line of which says what was asked of what.

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "app/studies/journal.h"
#include "engine/core/study/measure/evaluation.h"

namespace kvscope::app {

class EvalJournal {
 public:
  /// Opens the file, which this process alone writes from now on, and reads what is there already. An empty path: answers are
  /// only gathered. Throws Error for a file that is none, that has answers to another request, or an answer that this request
  /// cannot have, and (resource) if another process writes it.
  EvalJournal(std::filesystem::path path, const EvalRequest& request);

  const std::vector<EvalAnswer>& answers() const { return answers_; }
  const EvalFacts& facts() const { return facts_; }
  /// EvalAnswer::key() of what is there.
  std::vector<std::string> done() const;

  /// What the answers are of. Throws Error if it has answers of another model, device or number format.
  void begin(const EvalFacts& facts);
  void append(const EvalAnswer& answer);

 private:
  void read_first(const nlohmann::json& line, const std::string& place);
  void read_answer(const nlohmann::json& line, const std::string& place);

  Journal journal_;
  EvalRequest asked_;
  std::string request_;  // as the first line has it
  std::optional<EvalFacts> there_;
  EvalFacts facts_;
  std::vector<EvalAnswer> answers_;
  std::set<std::string> keys_;  // of the answers
};

}  // namespace kvscope::app

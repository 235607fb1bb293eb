#pragma once
// The answers of an evaluation as a file: one JSON object a line, the first of which says what was asked of what. Every answer
// is on its way to the disk before the next is asked for, so that whatever stops an evaluation leaves what was done.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/study/evaluation.h"

namespace kvscope::app {

class EvalFile {
 public:
  /// Reads what is there already; a last line that was cut short is not there. An empty path: answers are only gathered.
  /// Throws Error for a file that is none, or that has answers to another request.
  EvalFile(std::filesystem::path path, const EvalRequest& request);

  const std::vector<EvalAnswer>& answers() const { return answers_; }
  const EvalFacts& facts() const { return facts_; }
  /// EvalAnswer::key() of what is there.
  std::vector<std::string> done() const;

  /// What the answers are of: opens the file. Throws Error if it has answers of another model, device or number format.
  void begin(const EvalFacts& facts);
  void append(const EvalAnswer& answer);

 private:
  void read();
  void write_line(const std::string& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::string request_;  // as the first line has it
  std::optional<EvalFacts> there_;
  EvalFacts facts_;
  std::vector<EvalAnswer> answers_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace kvscope::app

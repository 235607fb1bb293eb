#pragma once
// The answers of a sweep as a journal beside its target. The first line says what all answers share; each other one is an answer
// of a group, or what a group ran on. Answers to points that a recipe no longer has stay there and are not counted; a recipe that has grown asks for what is new.

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/studies/journal.h"
#include "app/studies/sweep/sweep_plan.h"

namespace kvscope::app {

class SweepJournal {
 public:
  /// Reads `path` if it is there (empty: answers are only gathered), and `others`, of shards; of each a last line that was cut short is not there. Throws Error for
  /// a file that is none, has answers of other settings, or ran on something else than another one.
  SweepJournal(std::filesystem::path path, const std::vector<std::filesystem::path>& others, const SweepPlan& plan);

  /// The answer to EvalAnswer::key() in a group, if there is one.
  const EvalAnswer* find(const SweepGroup& group, const std::string& key) const;
  const std::map<std::string, EvalFacts>& facts() const { return facts_; }  // by group

  /// Makes or opens the file, which this process alone writes from now on (Error (resource) if another one does).
  void open();
  /// Any thread may call them. Throw Error if a group goes on with another model, device, number format or file.
  void begin(const SweepGroup& group, const EvalFacts& facts);
  void append(const SweepGroup& group, const EvalAnswer& answer);

 private:
  std::size_t read(const std::filesystem::path& path);
  void check_first(const nlohmann::json& line, const std::filesystem::path& path) const;
  void check_facts(const std::string& group, const EvalFacts& facts, const std::filesystem::path& path);

  Journal journal_;
  nlohmann::ordered_json settings_;
  std::vector<std::string> shared_;  // names of files that decide the answers of every group: all but gates
  std::mutex mutex_;
  std::map<std::string, EvalFacts> facts_;
  std::unordered_map<std::string, std::unordered_map<std::string, EvalAnswer>> answers_;  // by group, by key
};

/// "s.h5.answers", of a shard "s.h5.answers.0-of-4".
std::filesystem::path journal_path(const std::filesystem::path& target, const Shard& shard = {});
/// Those of a target that are there, but for `own`.
std::vector<std::filesystem::path> other_journals(const std::filesystem::path& target,
                                                  const std::filesystem::path& own);

}  // namespace kvscope::app

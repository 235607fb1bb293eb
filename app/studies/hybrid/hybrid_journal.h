#pragma once
// What a study has measured, as a journal, the first line of which says on what. Entries are named by what they measure
// (these heads on this piece), not by who asked: another list of shares goes on from the same file.

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/studies/journal.h"

namespace kvscope::app {

class HybridJournal {
 public:
  /// Opens or makes the file; a last line that was cut short is not there. Throws Error for a file that is none, that has
  /// measurements of something else than `what` (the first field that differs is named), or that another process has open.
  HybridJournal(std::filesystem::path path, const nlohmann::ordered_json& what);
  /// Removes a file in which nothing was measured.
  ~HybridJournal();
  HybridJournal(const HybridJournal&) = delete;
  HybridJournal& operator=(const HybridJournal&) = delete;

  /// The numbers of that name; of a new one those that `measure` gives, which are written. NaN is kept. Throws Error if the
  /// file has another number of them than `n`.
  const std::vector<double>& values(const std::string& key, std::size_t n,
                                    const std::function<std::vector<double>()>& measure);
  bool has(const std::string& key) const { return entries_.contains(key); }
  std::size_t size() const { return entries_.size(); }
  /// Removes the file: the study is in its place.
  void remove();

 private:
  std::size_t read(const nlohmann::ordered_json& facts);
  void read_entry(const nlohmann::json& line, const std::string& place);

  Journal journal_;
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace kvscope::app

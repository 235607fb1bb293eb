#pragma once
// What a study has measured so far, one JSON object a line, the first of which says on what. Every pass is on its way to the
// disk before the next begins, so that whatever stops a study leaves what was done. Entries are named by what they measure
// (these heads on this piece), not by who asked: another list of shares goes on from the same file.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/support/file.h"

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

  /// The numbers of that name; of a new one those that `measure` gives, which are written. NaN is kept.
  const std::vector<double>& values(const std::string& key, const std::function<std::vector<double>()>& measure);
  bool has(const std::string& key) const { return entries_.contains(key); }
  std::size_t size() const { return entries_.size(); }
  /// Removes the file: the study is in its place.
  void remove();

 private:
  void read(const nlohmann::ordered_json& facts);
  void write_line(const nlohmann::ordered_json& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace kvscope::app

#pragma once
// Traces in and out, in the background: a message reports the end.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/eviction_headline.h"

namespace kvscope::app {

class Session;

class Traces {
 public:
  /// `program` reads traces in a child process (--trace-child); empty: they are read here.
  Traces(Session& session, std::string program) : session_(session), program_(std::move(program)) {}

  /// Each run is on the list as soon as it is read; at most 64. Other work in the background goes between two runs. A run that
  /// cannot be read is a banner and the last one. Of a trace that is on the list, runs that are there as the file has them are
  /// not added again, and those that were taken off it come back.
  void open(const std::string& path);
  /// The recorded run that comes with the program (first_run_trace()), in the oracle's colours and at its costliest lost
  /// token, unless a run is on the list by then. It is no file that a person has opened: a failure is a line of the log,
  /// and the policy of the next run stays.
  void show_first(const std::string& path);
  /// Those that were closed half-read and are on the list again.
  void read_on();
  /// The trace that is being read; nothing before its first run is there. For the status line.
  struct Reading {
    std::string path;
    int n_read = 0, n_runs = 0;
  };
  const std::optional<Reading>& reading() const { return reading_; }
  void save(int run_id, const std::string& path, bool overwrite);

 private:
  bool is_listed(const std::string& trace) const;
  struct HalfRead;
  void read(const std::string& path, int first);
  void read_next(const std::shared_ptr<HalfRead>& trace);
  /// Returns whether it is new.
  bool take_run(const std::string& path, std::shared_ptr<const RunRecord> run, int i);
  int n_removed(const std::string& path) const;
  void bring_back(const std::string& path);
  void take_first(const std::string& path, std::shared_ptr<const RunRecord> run,
                  const std::optional<EvictionHeadline>& found);

  Session& session_;
  std::string program_;
  std::optional<Reading> reading_;
  std::map<std::string, int> half_read_;  // traces that were closed meanwhile: which run would have been next
};

}  // namespace kvscope::app

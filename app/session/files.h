#pragma once
// Files in and out while the window goes on; a message tells each end.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "app/session/messages.h"
#include "app/session/worker.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

class Files {
 public:
  /// What to do with run `index` of a trace. Returns whether the next one is wanted.
  using TakeRun = std::function<bool(std::shared_ptr<const RunRecord> run, int index)>;
  /// All of them were taken, which may be fewer than the file has.
  using AllRead = std::function<void(int n_taken, int n_in_file)>;

  /// `trace_program` reads traces in a child process (--trace-child); empty: they are read here.
  Files(std::string trace_program, Messages& messages, Revision& revision, Worker& background);

  /// What the job throws is a banner.
  void in_background(std::string what, Worker::Job job);
  /// `take` gets each run from `first` on, on this thread as soon as it is read, the first one while the others are still in
  /// the file; at most 64. Other work in the background goes between two runs. A run that cannot be read is a banner and
  /// the last one.
  void open_trace(const std::string& path, int first, TakeRun take, AllRead all_read);
  /// The trace that is being read; nothing before its first run is there. For the status line.
  struct Reading {
    std::string path;
    int n_read = 0, n_runs = 0;
  };
  const std::optional<Reading>& reading() const { return reading_; }
  void save_trace(const std::string& path, std::shared_ptr<const RunRecord> run, bool overwrite,
                  std::function<void()> saved);
  bool busy() const { return background_.busy(); }

  /// The file is a copy of what `word` names: the list of recent files has the word, and nothing is saved beside the copy.
  void set_origin(const std::string& path, const std::string& word) { origins_[path] = word; }
  const std::deque<std::string>& recent() const { return recent_; }
  void remember(const std::string& path);
  void set_recent(const std::vector<std::string>& paths);

  /// Where what is saved next is likely wanted: where a file was saved or opened last, else the person's documents.
  std::string save_folder() const;
  /// A file was saved or opened there.
  void remember_place(const std::string& path);
  const std::string& place() const { return place_; }  // a folder; empty: nothing was saved or opened
  void set_place(const std::string& folder) { place_ = folder; }

 private:
  struct OpenTrace;
  void read_next(const std::shared_ptr<OpenTrace>& trace);

  std::string trace_program_;
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  std::map<std::string, std::string> origins_;  // of copies
  std::deque<std::string> recent_;
  std::string place_;
  std::optional<Reading> reading_;
};

}  // namespace kvscope::app

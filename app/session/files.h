#pragma once
// Files in and out while the window goes on; a message tells each end.

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/session/messages.h"
#include "app/session/worker.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

class Files {
 public:
  using Runs = std::vector<std::shared_ptr<const RunRecord>>;

  /// `trace_program` reads traces in a child process (--trace-child); empty: they are read here.
  Files(std::string trace_program, Messages& messages, Revision& revision, Worker& background);

  /// What the job throws is a banner.
  void in_background(std::string what, Worker::Job job);
  /// `opened` gets the runs on this thread; never an empty list.
  void open_trace(const std::string& path, std::function<void(const Runs&)> opened);
  void save_trace(const std::string& path, std::shared_ptr<const RunRecord> run, bool overwrite,
                  std::function<void()> saved);
  bool busy() const { return background_.busy(); }

  const std::deque<std::string>& recent() const { return recent_; }
  void remember(const std::string& path);
  void set_recent(const std::vector<std::string>& paths);

 private:
  std::string trace_program_;
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  std::deque<std::string> recent_;
};

}  // namespace kvscope::app

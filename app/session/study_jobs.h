#pragma once
// Studies that the window starts. Each is a kvscope command in a separate process, so its file is the command line's, byte for
// byte, and a crash takes nothing else with it. The command saves its answers as they come: a study that was stopped, or whose
// window was killed, continues from its last answer.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/session/engine_link.h"
#include "app/session/messages.h"
#include "app/session/study_form.h"

namespace kvscope::app {

struct StudyJob {
  enum class State { running, stopping, stopped, failed, complete };
  int id = 0;
  std::vector<std::string> words;  // after "kvscope": "sweep", "recipe.json", "-o", "s.h5"
  std::string folder;              // that relative paths begin at
  State state = State::running;
  TaskProgress progress;
  std::string message;  // its last line that is no progress

  bool is_running() const { return state == State::running || state == State::stopping; }
  const std::string& command() const { return words.front(); }
  /// The file that it writes, absolute.
  std::string output() const;
  /// "kvscope sweep recipe.json -o s.h5", for a shell in `folder`.
  std::string command_line() const;
};

/// "running", "stopped" ...
std::string_view to_string(StudyJob::State state);

class StudyJobs {
 public:
  /// `program` is kvscope, `forms` what it may start; `wake` is called from other threads when poll() has something to do.
  StudyJobs(std::string program, std::vector<StudyForm> forms, std::function<void()> wake, Messages& messages,
            Revision& revision);
  /// Stops what is running: its journal has what was measured.
  ~StudyJobs();

  /// Starts "kvscope WORDS" in this process's working folder; returns its id. Throws Error (usage) if another study writes that
  /// file, (resource) if it cannot be started.
  int start(std::vector<std::string> words);
  /// As Ctrl+C does: the study saves its answers and ends. A second call ends it at once.
  void stop(int id);
  /// Continues one that was stopped or failed.
  void resume(int id);
  /// Off the list; its files stay. Throws Error (usage) while it runs.
  void remove(int id);
  void poll();

  const std::vector<StudyForm>& forms() const { return forms_; }
  /// The newest first.
  const std::vector<StudyJob>& all() const { return jobs_; }
  /// Throws Error (usage) for one that is not on the list.
  const StudyJob& job(int id) const;
  /// Of an earlier window. What was running then was stopped with it.
  void put_back(std::vector<StudyJob> jobs);

 private:
  struct Process;
  StudyJob& find(int id);
  void run(StudyJob& job, const std::vector<std::string>& words);
  void take_line(StudyJob& job, const std::string& line);
  void finish(StudyJob& job, int status);

  std::string program_;
  std::vector<StudyForm> forms_;
  std::function<void()> wake_;
  Messages& messages_;
  Revision& revision_;
  std::vector<StudyJob> jobs_;
  int next_id_ = 1;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace kvscope::app

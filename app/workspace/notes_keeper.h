#pragma once
// Pins and notes of runs that are in files of the person's, kept beside these (engine/core/trace/trace_notes.h). The notes of
// all other runs are in the workspace alone, until they are saved as a trace.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/session/session.h"
#include "app/session/worker.h"
#include "app/workspace/undo.h"
#include "engine/core/trace/trace_notes.h"

namespace kvscope::app {

class NotesKeeper {
 public:
  /// They must outlive it. `writes`: else it only reads.
  NotesKeeper(Session& session, Undo& undo, Worker& worker, bool writes)
      : session_(session), undo_(undo), worker_(worker), writes_(writes) {}

  /// Reads what stands beside traces that have come, and where `due`, writes what a person has changed. Only that: a trace
  /// that is opened beside another of the same text gets no file by it.
  void poll(bool due);
  /// All is read, and written as far as it can be.
  bool idle() const;

 private:
  struct Trace {
    std::set<int> runs;           // ids of those whose notes were taken in
    std::vector<RunNotes> known;  // of these runs, as the file has it or as it need not be written
    bool reading = false, writing = false;
    bool given_up = false;  // the file is damaged or cannot be written: it stays as it is
  };
  /// What the notes of all traces follow from; looked at in every round.
  struct Seen {
    PinnedTexts pins;
    std::map<int, std::string> notes;
    std::vector<RunEntry> runs;  // that have a trace
  };
  bool is_seen() const;
  void look_at(const RunEntry& entry);
  void read(const std::string& path);
  void take(const std::string& path, const std::vector<RunNotes>& file);
  /// What the file says of this run; empty where it says nothing.
  RunNotes take_run(const RunEntry& entry, const std::vector<RunNotes>& file);
  void write(const std::string& path, Trace& trace);
  RunNotes notes_of(const RunEntry& entry) const;
  /// Of the runs of that trace which were taken in, by their place in it.
  std::vector<RunNotes> notes_of(const std::string& path, const Trace& trace) const;
  void warn(const std::string& text);

  Session& session_;
  Undo& undo_;
  Worker& worker_;
  bool writes_;
  std::map<std::string, Trace> traces_;
  std::map<int, std::string> paths_;  // of each run that was looked at
  std::set<int> saved_;               // runs that were given a trace here: their notes go with them
  Seen seen_;
  bool behind_ = false;  // something was seen that is not written
};

}  // namespace kvscope::app

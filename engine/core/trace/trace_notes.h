#pragma once
// TRACE.notes.json: what a person has written about the runs of a trace, beside it. The trace itself stays as it is.
//
//   {"format": "kvscope-notes", "version": 1,
//    "runs": [{"run": 0, "ids": "8c1f...", "name": "", "note": "...",
//              "pins": [{"letter": "a", "layer": 3, "kv_head": 1, "token": 812, "note": "..."}]}]}

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/record/pins.h"

namespace kvscope {

struct RunNotes {
  int run = 0;       // which one of the trace
  std::string ids;   // ids_hash(): another run in its place does not get these notes
  std::string name;  // that a person gave it; may be empty
  std::string note;  // of the run as a whole; may be empty
  std::vector<Pin> pins;
  bool empty() const { return name.empty() && note.empty() && pins.empty(); }
  bool operator==(const RunNotes&) const = default;
};

/// Whether they are of the same run, whatever they say of it.
inline bool same_run(const RunNotes& a, const RunNotes& b) { return a.run == b.run && a.ids == b.ids; }

/// The file that belongs to a trace: "a.h5.notes.json".
std::filesystem::path notes_file(const std::filesystem::path& trace);
/// Of all token ids of a run, as hex.
std::string ids_hash(const RunRecord& run);

/// In ascending order of their runs; empty if the trace has no such file. Throws Error for a file that is damaged, of
/// another kind, or of a newer version.
std::vector<RunNotes> read_notes(const std::filesystem::path& trace);
/// Puts the notes of these runs in the place of those that the file has of the same runs, the others stay; a file without
/// notes goes. The old file or the new one, never half. Throws Error as read_notes(), and for a folder that cannot be
/// written.
void update_notes(const std::filesystem::path& trace, const std::vector<RunNotes>& runs);

}  // namespace kvscope

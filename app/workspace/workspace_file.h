#pragma once
// What stands in workspace.json.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "app/session/session.h"
#include "app/workspace/workspace_state.h"

namespace kvscope::app {

/// Where the next start finds a run.
struct SavedRun {
  int id = 0;
  bool own = false;         // in the workspace's folder, as run-ID.h5
  std::string trace;        // that it was read from or saved to, absolute; empty if there is none
  int trace_run = 0;        // which run of it
  std::string fingerprint;  // of its tokens, unless own: another run in the file's place is not taken for this one
  std::string name = {};    // that the person gave it
};

struct WorkspaceFile {
  WorkspaceState state;
  std::string model;
  std::vector<std::string> gates;    // that its engine was given
  std::vector<ModelChoice> choices;  // of other models that were open
  std::vector<std::string> recent;
  std::string place = {};  // folder that was saved to or opened from last
  std::vector<SavedRun> runs;
  int next_run = 1;
  bool preview = false;                // is in B's place
  std::vector<StudyJob> studies = {};  // that this window started, or an earlier one
};

/// Of a run's number of tokens and its last ones, as hex.
std::string fingerprint(const RunRecord& run);

/// One is on show, or on its way there.
bool has_preview(const Session& session);

/// As the window has it, but for model and gates; of the runs those of its own that `wanted` says are or will be on disk, and all that have a trace.
WorkspaceFile workspace_file(const Session& session, const WorkspaceState& state, const std::set<int>& wanted);

std::string to_text(const WorkspaceFile& file);
/// Throws Error for what is not whole and right.
WorkspaceFile read_workspace_file(const std::filesystem::path& path);

}  // namespace kvscope::app

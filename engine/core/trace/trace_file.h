#pragma once
// Traces on disk. trace_schema.h says what stands where; this header is what the rest of the program uses.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/support/file.h"

namespace kvscope {

/// Must be called first of all in every process that touches HDF5: no atexit handler (it crashes on a full disk), no
/// plug-ins, no error stack on stderr.
void hdf5_start();

/// Takes the right to write the trace that is now at `path`; the handle keeps it. Throws Error (resource): another
/// process has it. On file systems without locks it always succeeds.
FileHandle lock_trace(const std::filesystem::path& path);

/// Which runs a trace is to have: a list of prompts, all answered under the same options, or one of n_shards parts of
/// it. Runs say by RunRecord::prompt_index which prompt of the whole list they answer.
struct CaptureInfo {
  int n_prompts = 0;            // of the whole list; 0: the trace is not of a capture
  int shard = 0, n_shards = 1;  // this one has the prompts i with i % n_shards == shard
  std::string prompts_hash;     // hex of FNV-1a 64 over the whole list
  std::string request;          // the options of every run, as they are typed: "--policy kvpop:keep=25% ..."
  bool operator==(const CaptureInfo&) const = default;
};

class PreparedRun;
namespace trace {
struct RunPlace;
}

/// Writes many runs into one file that survives kill -9 at any moment: after each add() the run is committed, and a
/// killed file opens in stock h5py with every committed run. finish() repacks (chunked, shuffle + deflate, NeXus
/// attributes) to a temporary name, syncs and renames.
class TraceWriter {
 public:
  struct Options {
    bool overwrite = false;
    // Go on with the trace of that name, if there is one, partial or complete: its committed runs stay. The model must
    // be the one that the file says it has, up to the last letter. A partial trace is continued in place, in the room
    // that it was made with; one that has no room for max_runs is unpacked beside itself first.
    bool resume = false;
    int max_runs = 1;       // that the trace will have in all
    int max_positions = 0;  // longest run
    // Tokens of all runs together, if it is known to be less than max_runs * max_positions (0: it is not). Room is
    // reserved as a hole in the file, which costs no space but must fit the file system (16 TiB on ext4).
    std::int64_t total_positions = 0;
    CaptureInfo capture;
  };
  /// Throws Error: the file exists and overwrite is false (resource: who writes has looked, so that another process has made it
  /// meanwhile), the folder is missing, no space, another process writes it.
  /// What is overwritten stays until the new trace has its first run. `lock`: lock_trace()'s of the trace to resume, of
  /// whoever has looked at its runs and must find them so; without one it is taken here.
  TraceWriter(std::filesystem::path path, const ModelInfo& model, const Options& options,
              FileHandle lock = FileHandle());
  ~TraceWriter();
  void add(const RunRecord& run);
  /// A run that is committed with the next ones: by commit(), add() or finish(). A kill before that loses it and no other.
  void append(const RunRecord& run);
  /// Throws Error (internal) unless it was prepared for place().
  void append(const PreparedRun& prepared);
  /// Where the next run comes. RunPlace::pass() gives those after it.
  trace::RunPlace place() const;
  void commit();
  int committed() const;
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One call for a single run.
void save_trace(const std::filesystem::path& path, const RunRecord& run, bool overwrite);

struct TraceInfo {
  int version = 0;
  std::string status;  // "complete", "partial", "merged"
  ModelInfo model;
  CaptureInfo capture;
  int n_runs = 0;
  int planned_runs = 0;                    // that the writer was asked for; more than n_runs if it was stopped
  std::vector<std::int32_t> prompt_index;  // [n_runs], as the runs have it
  std::vector<int> cut_runs;               // ascending: those that were cancelled or failed
  std::vector<std::string> shards;         // of a merged trace: the files with its data, in the same folder
  std::string created_by;                  // program and version: "kvscope 0.1.0"
  std::string git_revision;                // of that program
  std::int64_t page_reads = 0;             // of all runs
  int changed_runs = 0;                    // whose policy was changed while they went on
};
/// The first thing in which two traces cannot be parts of one, with both values as a person would say them.
struct TraceDifference {
  std::string what;  // "weights_hash", "--max-tokens"
  std::string a, b;
};
/// Names and paths may differ: a model is its weights, its number format and its device.
std::optional<TraceDifference> model_difference(const ModelInfo& a, const ModelInfo& b);
/// Lists of prompts and options; which shard it is may differ.
std::optional<TraceDifference> capture_difference(const CaptureInfo& a, const CaptureInfo& b);

TraceInfo inspect_trace(const std::filesystem::path& path);
/// Throws Error for anything that is not a whole trace of a known version: foreign file, cut file, wrong shape.
RunRecord load_trace(const std::filesystem::path& path, int run_index = 0);

}  // namespace kvscope

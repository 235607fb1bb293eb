#pragma once
// Traces on disk. trace_schema.h says what stands where; this header is what the rest of the program uses.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/core/run/run_record.h"

namespace kvscope {

/// Must be called first of all in every process that touches HDF5: no atexit handler (it crashes on a full disk), no
/// plug-ins, no error stack on stderr.
void hdf5_start();

/// Writes many runs into one file that survives kill -9 at any moment: after each add() the run is committed, and a
/// killed file opens in stock h5py with every committed run. finish() repacks (chunked, shuffle + deflate, NeXus
/// attributes) to a temporary name, syncs and renames.
class TraceWriter {
 public:
  struct Options {
    bool overwrite = false;
    int max_runs = 1;       // that will be added
    int max_positions = 0;  // longest run
    // Tokens of all runs together, if it is known to be less than max_runs * max_positions (0: it is not). Room is
    // reserved as a hole in the file, which costs no space but must fit the file system (16 TiB on ext4).
    std::int64_t total_positions = 0;
  };
  /// Throws Error: the file exists and overwrite is false, the folder is missing, no space ...
  TraceWriter(std::filesystem::path path, const ModelInfo& model, const Options& options);
  ~TraceWriter();
  void add(const RunRecord& run);
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
  std::string status;  // "complete", "partial"
  ModelInfo model;
  int n_runs = 0;
  int planned_runs = 0;  // that the writer was asked for; more than n_runs if it was stopped
  std::string created_by;
};
TraceInfo inspect_trace(const std::filesystem::path& path);
/// Throws Error for anything that is not a whole trace of a known version: foreign file, cut file, wrong shape.
RunRecord load_trace(const std::filesystem::path& path, int run_index = 0);

}  // namespace kvscope

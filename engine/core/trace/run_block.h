#pragma once
// One run as the format stores it: a byte column for each dataset of kSchema. No HDF5 here: the same columns go to a
// file, come from a file, and travel through the pipe of the guarded reader.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_schema.h"

namespace kvscope::trace {

struct DerivedColumns;

struct RunBlock {
  int run = 0;             // its number in the file
  int version = kVersion;  // of the file: the columns of newer datasets are empty
  Slice slice;
  std::array<std::vector<std::byte>, kDatasets> columns;  // [dataset] row-major part of the run, slice.count long

  std::vector<std::byte>& operator[](Dataset id) { return columns[static_cast<int>(id)]; }
  const std::vector<std::byte>& operator[](Dataset id) const { return columns[static_cast<int>(id)]; }
  template <typename T>
  std::span<const T> values(Dataset id) const {
    const auto& column = (*this)[id];
    return {reinterpret_cast<const T*>(column.data()), column.size() / sizeof(T)};
  }
  template <typename T>
  T value(Dataset id) const {
    return values<T>(id)[0];
  }
  template <typename T>
  void set(Dataset id, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    (*this)[id].assign(bytes.begin(), bytes.end());
  }
  template <typename T>
  void set(Dataset id, T value) {
    set(id, std::span<const T>(&value, 1));
  }
};

/// Bytes of all its columns, by its slice: a double, as the counts may come from anywhere.
double run_bytes(const RunBlock& block);

/// Whether nothing but padding stands in a column, by columns that are there already: of a series that the run does not
/// have. Such a column is left empty, unless it is written to a file; the checksum knows what stands there.
bool is_padding(const RunBlock& block, Dataset id);

/// FNV-1a 64 over what the file says of the model (its scorer apart), then all columns but the checksum's own.
std::uint64_t checksum(const RunBlock& block, const ModelInfo& model);

/// Of every axis that grows, how much a run takes of it.
Extents counts_of(const RunRecord& run);

/// Where a run comes in a file: after `number` runs, which fill the axes so far.
struct RunPlace {
  Extents filled;
  int number = 0;
  /// The place after this run.
  void pass(const RunRecord& run);
  void pass(const RunBlock& block);
  bool operator==(const RunPlace&) const = default;
};

/// Columns of `run` as number `number` of a file whose axes are filled up to `filled`. Spans count from
/// the file's start. Throws Error (internal) if the record does not hang together (a row longer than the run, another
/// model's shape).
RunBlock encode_run(const RunRecord& run, const Extents& filled, int number);
/// The same with what derive() gave of this run.
RunBlock encode_run(const RunRecord& run, const DerivedColumns& derived, const Extents& filled, int number);

/// The inverse. The columns may come from anywhere: every size, span, index and mark is checked, and the checksum.
/// `file` names the source in Errors. `model` gives the shape.
RunRecord decode_run(const RunBlock& block, const ModelInfo& model, const std::string& file);
/// The same; large columns go as the run grows, so that it is never in memory twice.
RunRecord decode_run(RunBlock&& block, const ModelInfo& model, const std::string& file);

/// "FILE: run 3, heads/score: found; expected ...".
[[noreturn]] inline void malformed(const std::string& file, int run, std::string where, std::string found,
                                   std::string expected, ExitCode code = ExitCode::bad_input) {
  throw Error({.code = code,
               .file = file,
               .where = "run " + std::to_string(run) + ", " + where,
               .found = std::move(found),
               .expected = std::move(expected)});
}

}  // namespace kvscope::trace

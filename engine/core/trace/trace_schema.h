#pragma once
// The trace format, version 9. This header is the format: writer, reader, validator and repack are loops over kSchema.
//
// A trace is one HDF5 file with many runs of one model. Ragged data stand one run after the other along an axis that
// all runs share (tokens, contests, reads, bytes), in any order; run i owns the half-open range that a span dataset
// names, begin first:
//
//     a, b = f["runs/token_span"][i];   f["heads/evict_at"][layer, kv_head, a:b]
//
// Beside the datasets of kSchema a file has
//
//     /                attributes format = "kvscope-trace", version, status ("partial" | "complete" | "merged"),
//                      created_by, git_revision, planned_runs; NX_class, default for h5web, silx and NeXpy
//     /README          how to read it, with h5py, in ten lines
//     /committed       int64 scalar: runs 0 ... committed - 1 are whole. What stands behind them means nothing
//     /model           attributes: what ModelInfo says of the model; what scored a run stands with the run
//     /capture         attributes: what CaptureInfo says of the list of prompts that the runs come from
//     /shards          (merged files) name, filled, of_run: see trace_shards.h
//     /heads/layer, /heads/kv_head   axis values for NXdata
//     /summary/density (complete files) NXdata: mean over the runs of the density of each head at its last position
//
// "partial" is the layout while runs are added: every dataset contiguous and preallocated to its capacity, nothing but
// rows and `committed` written after the first flush. "complete" is the same schema trimmed to size, chunked, shuffle +
// deflate. "merged" has small datasets of its own, and the large ones as virtual datasets over shards in the same
// folder. Readers need not care which one they have: they read `committed` and the spans.
//
// A file of an older version lacks the datasets that are newer (DatasetSchema::since); what its runs are taken to have
// said instead is in run_versions.cpp. None is written: a capture that goes on renews the file.
//
// Strings are bytes (UTF-8 unless a token cut a character in two): fixed-length attributes, and byte pools with spans.
// Everything is little-endian. No variable-length types, no references, no links but hard ones, no external storage.

#include <array>
#include <cstdint>
#include <ranges>

namespace kvscope::trace {

inline constexpr int kVersion = 9;
inline constexpr char kFormat[] = "kvscope-trace";

/// What a dimension of a dataset counts. run ... piece_byte grow while runs are added.
enum class Axis : std::uint8_t { none, run, token, contest, read, page, text_byte, piece_byte, layer, kv_head, pair };
inline constexpr int kAxes = 11;
inline constexpr std::array<const char*, kAxes> kAxisNames = {"",     "run",  "token", "contest", "read",     "page",
                                                              "byte", "byte", "layer", "kv_head", "begin_end"};
inline constexpr bool grows(Axis axis) { return axis >= Axis::run && axis <= Axis::piece_byte; }

enum class Type : std::uint8_t { u8, i16, i32, i64, u64, f32, f64 };
inline constexpr int size_of(Type type) {
  constexpr int kSizes[] = {1, 2, 4, 8, 8, 4, 8};
  return kSizes[static_cast<int>(type)];
}

/// Names of the datasets in code; kSchema gives paths.
enum class Dataset : int {
#define X(name, ...) name,
#include "engine/core/trace/trace_datasets.inc"
#undef X
  count_
};
inline constexpr int kDatasets = static_cast<int>(Dataset::count_);

struct DatasetSchema {
  Dataset id;
  const char* path;
  Type type;
  std::array<Axis, 3> axes;  // outermost first; none behind the last
  const char* units;         // "" for pure numbers
  const char* meaning;
  int since = 1;         // version of the format that it came with
  int until = kVersion;  // and the last that has it
  constexpr bool is_in(int version) const { return since <= version && version <= until; }
  constexpr int rank() const {
    return axes[0] == Axis::none ? 0 : axes[1] == Axis::none ? 1 : axes[2] == Axis::none ? 2 : 3;
  }
};

// clang-format off
inline constexpr std::array<Axis, 3> kPerRun = {Axis::run}, kRunSpan = {Axis::run, Axis::pair},
    kRunHead = {Axis::run, Axis::layer, Axis::kv_head}, kPerToken = {Axis::token},
    kHeadToken = {Axis::layer, Axis::kv_head, Axis::token}, kLayerToken = {Axis::layer, Axis::token},
    kPerContest = {Axis::contest},
    kPerRead = {Axis::read};

/// 2147483647 (kNever) and 2147483646 (kUndecided) are the two marks of a lifetime, see lifetime_map.h.
inline constexpr std::array<DatasetSchema, kDatasets> kSchema = {{
#define X(name, ...) {Dataset::name, __VA_ARGS__},
#include "engine/core/trace/trace_datasets.inc"
#undef X
}};
// clang-format on

/// kSchema has the order of Dataset, so that a Dataset is also its index.
inline constexpr const DatasetSchema& schema(Dataset id) { return kSchema[static_cast<int>(id)]; }

/// The datasets of a file of that version.
inline auto datasets_of(int version) {
  return std::views::filter(kSchema, [version](const DatasetSchema& dataset) { return dataset.is_in(version); });
}

/// The groups that they stand in.
inline constexpr std::array<const char*, 6> kGroups = {"runs", "tokens", "heads", "contests", "reads", "layers"};
inline auto groups_of(int version) { return std::views::take(kGroups, version < 3 ? 5 : 6); }

/// How long each axis is: of a file's datasets, or how much of each one run has.
struct Extents {
  std::array<std::int64_t, kAxes> size{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  std::int64_t& operator[](Axis axis) { return size[static_cast<int>(axis)]; }
  std::int64_t operator[](Axis axis) const { return size[static_cast<int>(axis)]; }
  bool operator==(const Extents&) const = default;
};

/// The part of every axis that one run owns. layer, kv_head and pair are whole.
struct Slice {
  Extents begin{{}};
  Extents count;
};

/// How long a file's axes are (of a partial trace, its capacity), and how far its committed runs fill them.
struct TraceRows {
  Extents extents, filled;
};

/// Elements of `dataset` within `extents`.
constexpr std::int64_t n_elements(const DatasetSchema& dataset, const Extents& extents) {
  std::int64_t n = 1;
  for (int d = 0; d < dataset.rank(); ++d) n *= extents[dataset.axes[d]];
  return n;
}

/// The first and the last of the spans of a run's texts, which stand one after the other in runs/text (kRunTexts).
inline constexpr Dataset kFirstText = Dataset::prompt_text_span, kLastText = Dataset::scorer_span;

/// Spans of a run on the other growing axes.
struct AxisSpan {
  Dataset span;
  Axis axis;
};
inline constexpr std::array<AxisSpan, 5> kAxisSpans = {{{Dataset::token_span, Axis::token},
                                                        {Dataset::contest_span, Axis::contest},
                                                        {Dataset::piece_bytes_span, Axis::piece_byte},
                                                        {Dataset::read_span, Axis::read},
                                                        {Dataset::read_page_span, Axis::page}}};

}  // namespace kvscope::trace

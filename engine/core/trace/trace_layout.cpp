#include "engine/core/trace/trace_layout.h"

#include <algorithm>
#include <numeric>

#include "engine/core/support/version.h"
#include "engine/core/trace/chunk_packer.h"
#include "engine/core/trace/trace_model.h"

namespace kvscope::trace {

namespace {

constexpr char kReadme[] =
    R"(: which tokens a language model kept in its KV cache, run by run.

    import h5py
    f = h5py.File("trace.h5", "r")
    for i in range(f["committed"][()]):                  # whole runs; later rows are unused
        a, b = f["runs/token_span"][i]                   # this run's tokens on every token axis
        ids = f["tokens/id"][a:b]
        evict_at = f["heads/evict_at"][:, :, a:b]        # [layer, kv_head, token] int32: first query position
        kept = evict_at > b - a - 1                      #   that no longer sees the token
        c, d = f["runs/policy_span"][i]
        print(bytes(f["runs/text"][c:d]).decode(), kept.mean(axis=2))

Token t is visible to query q if t <= q < evict_at[t]; 2147483647 means kept for good, 2147483646 still in the window
when the run ended. Queries that read only some pages of 16 slots are in /reads, if the policy selects pages. Texts
of run i are in runs/text at runs/*_span: its policy, also as JSON (policy_json_span), changes of it during the run
(changes_span: query, tab, policy), what scored it, which oracle judged it. Each dataset is described in its attributes "meaning", "axes" and "units". Text attributes are
fixed-length UTF-8 (h5py gives bytes). The whole format is documented in engine/core/trace/trace_schema.h of KVScope.
)";

std::string axes_text(const DatasetSchema& dataset) {
  std::string text;
  for (int d = 0; d < dataset.rank(); ++d)
    text += (d ? ", " : "") + std::string(kAxisNames[static_cast<int>(dataset.axes[d])]);
  return text;
}

H5Id creation_of(const DatasetSchema& dataset, const Extents& extents, Storage storage, const ShardTable& shards) {
  H5Id creation = dataset_creation();
  if (storage == Storage::merged && is_in_shards(dataset) && n_elements(dataset, extents) > 0) {
    set_sources(creation, dataset, extents, shards);
    return creation;
  }
  const auto chunk = chunk_of(dataset, extents);
  if (storage == Storage::live || chunk[0] == 0) {
    h5_check(H5Pset_layout(creation, H5D_CONTIGUOUS), "prepare a dataset");
    h5_check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "prepare a dataset");
    return creation;
  }
  h5_check(H5Pset_chunk(creation, dataset.rank(), chunk.data()), "prepare a dataset");
  if (size_of(dataset.type) > 1) h5_check(H5Pset_shuffle(creation), "prepare a dataset");
  h5_check(H5Pset_deflate(creation, ChunkPacker::kLevel), "prepare a dataset");
  return creation;
}

H5Id create_dataset(hid_t file, const DatasetSchema& dataset, const Extents& extents, Storage storage,
                    const ShardTable& shards) {
  const std::string action = std::string("create ") + dataset.path;
  std::array<hsize_t, 3> dims{};
  for (int d = 0; d < dataset.rank(); ++d) dims[d] = extents[dataset.axes[d]];
  H5Id space(H5Screate_simple(dataset.rank(), dims.data(), nullptr), action);
  H5Id created(H5Dcreate2(file, dataset.path, h5_type(dataset.type), space, H5P_DEFAULT,
                          creation_of(dataset, extents, storage, shards), H5P_DEFAULT),
               action);
  write_attribute(created, "meaning", dataset.meaning);
  write_attribute(created, "axes", axes_text(dataset));
  if (*dataset.units) write_attribute(created, "units", dataset.units);
  return created;
}

void write_capture(hid_t file, const CaptureInfo& capture) {
  H5Id group = create_group(file, "capture");
  visit_fields(capture, [&](const char* name, const auto& value) { write_attribute(group, name, value); });
}

void write_axis(hid_t group, const char* name, const char* long_name, hsize_t n) {
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  write_attribute(write_dataset(group, name, Type::i32, {n}, values.data()), "long_name", long_name);
}

/// What makes /heads a plot in h5web, silx and NeXpy: scores over layer, head and token, the other series beside it.
void describe_heads(hid_t file, const ModelInfo& model) {
  H5Id group(H5Gopen2(file, "heads", H5P_DEFAULT), "open heads");
  write_attribute(group, "NX_class", "NXdata");
  write_attribute(group, "signal", "score");
  write_attribute(group, "auxiliary_signals", std::vector<std::string>{"future_mass", "evict_at"});
  write_attribute(group, "axes", std::vector<std::string>{"layer", "kv_head", "."});
  write_axis(group, "layer", "layer", model.n_layers);
  write_axis(group, "kv_head", "KV head", model.n_kv_heads);
}

void transfer(const OpenTrace& trace, Dataset id, const Extents& begin, const Extents& count, void* data, bool write) {
  const auto& dataset = schema(id);
  const std::string action = std::string(write ? "write " : "read ") + dataset.path;
  std::array<hsize_t, 3> start{}, length{};
  hsize_t n = 1;
  for (int d = 0; d < dataset.rank(); ++d) {
    start[d] = begin[dataset.axes[d]];
    length[d] = count[dataset.axes[d]];
    n *= length[d];
  }
  if (n == 0) return;
  H5Id file_space(H5Dget_space(trace[id]), action);
  h5_check(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, length.data(), nullptr), action);
  H5Id memory_space(H5Screate_simple(1, &n, nullptr), action);
  const hid_t type = h5_type(dataset.type);
  h5_check(write ? H5Dwrite(trace[id], type, memory_space, file_space, H5P_DEFAULT, data)
                 : H5Dread(trace[id], type, memory_space, file_space, H5P_DEFAULT, data),
           action);
}

const char* status_of(Storage storage) {
  switch (storage) {
    case Storage::live:
      return "partial";
    case Storage::packed:
      return "complete";
    case Storage::merged:
      return "merged";
  }
  return "";
}

}  // namespace

void OpenTrace::leak() {
  for (auto& dataset : datasets) dataset.leak();
  committed.leak();
  file.leak();
}

std::array<hsize_t, 3> chunk_of(const DatasetSchema& dataset, const Extents& extents) {
  constexpr std::int64_t kSmall = 4096;  // bytes
  if (n_elements(dataset, extents) * size_of(dataset.type) < kSmall) return {};
  std::array<hsize_t, 3> chunk{};
  std::int64_t bytes = size_of(dataset.type);
  int growing = -1;
  for (int d = 0; d < dataset.rank(); ++d) {
    if (grows(dataset.axes[d])) {
      growing = d;
      continue;
    }
    // One layer of all heads is what a view reads at a time.
    chunk[d] = dataset.axes[d] == Axis::layer && dataset.axes[0] == Axis::layer ? 1 : extents[dataset.axes[d]];
    bytes *= static_cast<std::int64_t>(chunk[d]);
  }
  chunk[growing] = std::clamp<std::int64_t>(kChunkTarget / bytes, 1, extents[dataset.axes[growing]]);
  return chunk;
}

OpenTrace create_trace(const std::string& path, const Heading& heading, const Extents& extents, Storage storage) {
  OpenTrace trace;
  try {
    H5Id creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file");
    h5_check(H5Pset_obj_track_times(creation, false), "prepare a file");
    trace.file = H5Id(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation, file_access()), "create the file");
    H5Id root(H5Gopen2(trace.file, "/", H5P_DEFAULT), "open /");
    write_attribute(root, "format", kFormat);
    write_attribute(root, "version", kVersion);
    write_attribute(root, "status", status_of(storage));
    write_attribute(root, "created_by", "kvscope " + std::string(version()));
    write_attribute(root, "git_revision", std::string(git_revision()));
    write_attribute(root, "planned_runs", heading.planned_runs);
    write_attribute(root, "NX_class", "NXroot");
    write_attribute(root, "default", storage == Storage::live ? "heads" : "summary");
    write_text_dataset(root, "README", "A KVScope trace, version " + std::to_string(kVersion) + kReadme);
    write_model(root, heading.model);
    write_capture(root, heading.capture);
    if (storage == Storage::merged) write_shards(root, heading.shards);
    for (const char* group : groups_of(trace.version)) create_group(root, group);
    for (const auto& dataset : datasets_of(trace.version))
      trace.datasets[static_cast<int>(dataset.id)] =
          create_dataset(trace.file, dataset, extents, storage, heading.shards);
    describe_heads(trace.file, heading.model);

    H5Id space(H5Screate(H5S_SCALAR), "create committed");
    H5Id early = dataset_creation();
    h5_check(H5Pset_alloc_time(early, H5D_ALLOC_TIME_EARLY), "create committed");
    trace.committed =
        H5Id(H5Dcreate2(root, "committed", H5T_STD_I64LE, space, H5P_DEFAULT, early, H5P_DEFAULT), "create committed");
    write_attribute(trace.committed, "meaning", "runs 0 ... committed - 1 are whole; rows after them are unused");
    write_committed(trace, 0);
  } catch (...) {
    trace.leak();
    throw;
  }
  return trace;
}

OpenTrace reopen_trace(const std::string& path) {
  OpenTrace trace;
  try {
    trace.file = H5Id(H5Fopen(path.c_str(), H5F_ACC_RDWR, file_access()), "open the file");
    for (const auto& dataset : datasets_of(trace.version))
      trace.datasets[static_cast<int>(dataset.id)] =
          H5Id(H5Dopen2(trace.file, dataset.path, H5P_DEFAULT), std::string("open ") + dataset.path);
    trace.committed = H5Id(H5Dopen2(trace.file, "committed", H5P_DEFAULT), "open committed");
  } catch (...) {
    trace.leak();
    throw;
  }
  return trace;
}

void write_part(const OpenTrace& trace, Dataset id, const Extents& begin, const Extents& count, const void* data) {
  transfer(trace, id, begin, count, const_cast<void*>(data), true);
}

void read_part(const OpenTrace& trace, Dataset id, const Extents& begin, const Extents& count, void* data) {
  transfer(trace, id, begin, count, data, false);
}

void write_committed(const OpenTrace& trace, std::int64_t n_runs) {
  h5_check(H5Dwrite(trace.committed, H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &n_runs), "write committed");
}

}  // namespace kvscope::trace

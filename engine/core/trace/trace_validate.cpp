#include "engine/core/trace/trace_validate.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/core/support/file.h"
#include "engine/core/support/refuse.h"
#include "engine/core/trace/h5_filters.h"
#include "engine/core/trace/trace_model.h"

namespace kvscope::trace {

namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

/// How many bytes of another program come before the HDF5 file: 512, or that doubled.
std::optional<std::uint64_t> user_block(int file, std::uint64_t size) {
  for (std::uint64_t at = 512; at < size; at *= 2) {
    char found[kSignature.size()];
    const auto n = ::pread(file, found, sizeof found, static_cast<off_t>(at));
    if (n == sizeof found && std::string_view(found, sizeof found) == kSignature) return at;
  }
  return std::nullopt;
}

class Validator {
 public:
  explicit Validator(const std::filesystem::path& path) { valid_.file = path.string(); }

  ValidTrace open() {
    check_signature();
    valid_.trace.file = H5Id(H5Fopen(valid_.file.c_str(), H5F_ACC_RDONLY, file_access()), "open the file");
    read_root();
    read_model();
    read_capture();
    for (const char* group : groups_of(valid_.info.version)) check_hard_link(group);
    for (const auto& dataset : datasets_of(valid_.info.version))
      valid_.trace.datasets[static_cast<int>(dataset.id)] = open_rows(dataset);
    measure();
    if (is_merged()) read_shard_table();
    for (const auto& dataset : datasets_of(valid_.info.version)) check_dataset(dataset);
    if (compressed_ > static_cast<double>(kMaxExpansion) * static_cast<double>(valid_.file_size) + (1 << 20))
      fail("",
           "compressed data that claims to be " + std::to_string(compressed_ / valid_.file_size) + " times the file",
           "at most " + std::to_string(kMaxExpansion));
    read_committed();
    read_prompt_indices();
    read_cut_runs();
    count_reads_and_changes();
    return std::move(valid_);
  }

 private:
  bool is_merged() const { return valid_.info.status == "merged"; }

  [[noreturn]] void fail(std::string where, std::string found, std::string expected, std::string hint = "") const {
    refuse(valid_.file, std::move(where), std::move(found), std::move(expected), std::move(hint));
  }

  /// Regular file and HDF5 signature, so that everyday mistakes get a better line than HDF5's.
  void check_signature() {
    const FileHandle handle = open_regular_file(valid_.file, valid_.file_size);
    char first[512];
    const auto n = ::pread(handle.get(), first, sizeof first, 0);
    const std::string_view bytes(first, n > 0 ? static_cast<std::size_t>(n) : 0);
    if (bytes.starts_with(kSignature)) return check_end(bytes);
    if (const auto block = user_block(handle.get(), valid_.file_size)) {
      fail("", "an HDF5 file after a user block of " + std::to_string(*block) + " bytes", "a KVScope trace without one",
           "tail -c +" + std::to_string(*block + 1) + " IN > OUT removes the block");
    }
    if (const auto foreign = recognise_foreign(bytes))
      fail("", foreign->found, "a KVScope trace (HDF5)", foreign->hint);
    fail("byte 0", bytes.empty() ? "an empty file" : "not an HDF5 file", "a KVScope trace (HDF5)");
  }

  /// HDF5 says it in terms of its own, and of a file that is cut in its head what it happens upon.
  void check_end(std::string_view head) const {
    const auto whole = whole_size(head);
    if (whole && *whole <= valid_.file_size) return;
    fail("",
         "the file is cut off: " + std::to_string(valid_.file_size) + (whole ? " of " + std::to_string(*whole) : "") +
             " bytes",
         "a whole KVScope trace", "copy it again, or create it again");
  }

  void read_root() {
    H5Id root(H5Gopen2(valid_.trace.file, "/", H5P_DEFAULT), "open /");
    if (H5Aexists(root, "format") <= 0 || read_text_attribute(root, "format") != kFormat)
      fail("/", "an HDF5 file of another program", std::string("attribute format = \"") + kFormat + "\"");
    const auto version = read_integer_attribute(root, "version");
    if (version > kVersion)
      fail("/ version", std::to_string(version), "at most " + std::to_string(kVersion),
           "a newer KVScope wrote this trace; update to read it");
    if (version < 1) fail("/ version", std::to_string(version), "1 to " + std::to_string(kVersion));
    valid_.info.version = valid_.trace.version = static_cast<int>(version);
    valid_.info.status = read_text_attribute(root, "status");
    if (valid_.info.status != "complete" && valid_.info.status != "partial" && !is_merged())
      fail("/ status", in_quotes(valid_.info.status), "complete, partial or merged");
    valid_.info.created_by = read_text_attribute(root, "created_by");
    valid_.info.git_revision = read_text_attribute(root, "git_revision");
    valid_.info.planned_runs = bounded(root, "planned_runs");
  }

  int bounded(hid_t object, const char* name) {
    const auto value = read_integer_attribute(object, name);
    if (value < 0 || value > INT32_MAX) fail(name, std::to_string(value), "0 to 2147483647");
    return static_cast<int>(value);
  }

  void read_model() {
    check_hard_link("model");
    valid_.info.model =
        trace::read_model(H5Id(H5Gopen2(valid_.trace.file, "model", H5P_DEFAULT), "open model"), valid_.file);
  }

  void read_capture() {
    check_hard_link("capture");
    H5Id group(H5Gopen2(valid_.trace.file, "capture", H5P_DEFAULT), "open capture");
    auto& capture = valid_.info.capture;
    visit_fields(capture, [&]<typename T>(const char* name, T& value) {
      if constexpr (std::is_same_v<T, int>) {
        value = bounded(group, name);
      } else {
        value = read_text_attribute(group, name);
      }
    });
    if (capture.shard >= capture.n_shards)
      fail("/capture shard", std::to_string(capture.shard), "below " + std::to_string(capture.n_shards));
  }

  /// The shards must be there: h5py would show what they have as missing values, without a word.
  void read_shard_table() {
    std::array<H5Id, 3> tables;
    constexpr std::array<const char*, 3> kNames = {"shards/name", "shards/filled", "shards/of_run"};
    check_hard_link("shards");
    for (std::size_t i = 0; i < tables.size(); ++i) {
      tables[i] = open_dataset(kNames[i]);
      check_storage(std::string("/") + kNames[i], tables[i], 0);
    }
    valid_.shards = read_shards(tables[0], tables[1], tables[2], valid_.extents, valid_.file);
    const auto folder = std::filesystem::path(valid_.file).parent_path();
    for (const std::string& name : valid_.shards.names) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(folder / name, ignored)) continue;
      fail("", "its shard " + escape_for_terminal(name) + " is not in the same folder",
           "all " + std::to_string(valid_.shards.names.size()) + " shards",
           "keep them in one folder, or merge with --copy");
    }
    valid_.info.shards = valid_.shards.names;
  }

  /// Soft and external links could lead to other objects and other files.
  void check_hard_link(const char* path) {
    H5L_info_t info;
    if (H5Lexists(valid_.trace.file, path, H5P_DEFAULT) <= 0)
      fail(std::string("/") + path, "missing", "a whole KVScope trace");
    h5_check(H5Lget_info(valid_.trace.file, path, &info, H5P_DEFAULT), std::string("look at ") + path);
    if (info.type != H5L_TYPE_HARD) fail(std::string("/") + path, "a link to another place", "the data itself");
  }

  H5Id open_dataset(const char* path) {
    check_hard_link(path);
    H5Id object(H5Oopen(valid_.trace.file, path, H5P_DEFAULT), std::string("open ") + path);
    if (H5Iget_type(object) != H5I_DATASET) fail(std::string("/") + path, "not a dataset", "a dataset");
    return object;
  }

  /// Every layer of a row is a chunk of its own. They stay unpacked from one run to the next, or a trace of many short
  /// runs would unpack all layers of all series again for each of them: 30 ms a run.
  H5Id open_rows(const DatasetSchema& dataset) {
    H5Id opened = open_dataset(dataset.path);
    if (dataset.axes[0] != Axis::layer) return opened;
    opened.reset();  // a dataset that is open keeps the cache that it has
    H5Id access(H5Pcreate(H5P_DATASET_ACCESS), "prepare a dataset");
    const auto bytes =
        std::min<std::size_t>(static_cast<std::size_t>(valid_.info.model.n_layers) * 2 * kChunkTarget, 16 << 20);
    h5_check(H5Pset_chunk_cache(access, 521, std::max<std::size_t>(bytes, 1 << 20), 1), "prepare a dataset");
    return H5Id(H5Dopen2(valid_.trace.file, dataset.path, access), std::string("open ") + dataset.path);
  }

  std::array<hsize_t, 3> dims_of(const DatasetSchema& dataset) {
    H5Id space(H5Dget_space(valid_.trace[dataset.id]), std::string("measure ") + dataset.path);
    std::array<hsize_t, 3> dims{};
    const int rank = H5Sget_simple_extent_ndims(space);
    if (H5Sget_simple_extent_type(space) != H5S_SIMPLE || rank != dataset.rank())
      fail(std::string("/") + dataset.path, std::to_string(rank) + " dimensions", std::to_string(dataset.rank()));
    h5_check(H5Sget_simple_extent_dims(space, dims.data(), nullptr), std::string("measure ") + dataset.path);
    return dims;
  }

  /// One dataset says how long each growing axis is; check_dataset() holds all others to it.
  void measure() {
    auto& extents = valid_.extents;
    extents[Axis::layer] = valid_.info.model.n_layers;
    extents[Axis::kv_head] = valid_.info.model.n_kv_heads;
    for (const auto id : {Dataset::status, Dataset::token_id, Dataset::contest_q, Dataset::read_q, Dataset::page,
                          Dataset::text, Dataset::piece_bytes}) {
      const auto n = dims_of(schema(id))[0];
      // Then no product of three axes and an element size overflows 64 bits: 2^48 alone is far beyond any disk.
      if (n > (hsize_t{1} << 48))
        fail(std::string("/") + schema(id).path, std::to_string(n) + " elements", "fewer than 2^48");
      extents[schema(id).axes[0]] = static_cast<std::int64_t>(n);
    }
  }

  void check_dataset(const DatasetSchema& dataset) {
    const std::string where = std::string("/") + dataset.path;
    const hid_t id = valid_.trace[dataset.id];
    const auto dims = dims_of(dataset);
    double bytes = size_of(dataset.type);
    for (int d = 0; d < dataset.rank(); ++d) {
      const auto expected = valid_.extents[dataset.axes[d]];
      if (dims[d] != static_cast<hsize_t>(expected))
        fail(where, std::to_string(dims[d]) + " along axis " + std::to_string(d),
             std::to_string(expected) + " (" + kAxisNames[static_cast<int>(dataset.axes[d])] + ")");
      bytes *= static_cast<double>(dims[d]);
    }
    H5Id type(H5Dget_type(id), "look at " + where);
    if (H5Tequal(type, h5_type(dataset.type)) <= 0)
      fail(where, "elements of a different type", "the type of the format");
    if (is_merged() && is_in_shards(dataset) && bytes > 0) return check_virtual(where, dataset);
    check_storage(where, id, bytes);
  }

  /// Never read through HDF5, which would open whatever file it names: see open_shard().
  void check_virtual(const std::string& where, const DatasetSchema& dataset) {
    H5Id creation(H5Dget_create_plist(valid_.trace[dataset.id]), "look at " + where);
    if (H5Pget_layout(creation) != H5D_VIRTUAL) fail(where, "its own data", "a virtual dataset over the shards");
    check_sources(creation, dataset, valid_.shards, valid_.file);
  }

  void check_storage(const std::string& where, hid_t id, double bytes) {
    H5Id creation(H5Dget_create_plist(id), "look at " + where);
    if (H5Pget_external_count(creation) != 0) fail(where, "data in another file", "data in this file");
    const auto layout = H5Pget_layout(creation);
    if (layout == H5D_CONTIGUOUS) {
      if (bytes == 0) return;
      const haddr_t offset = H5Dget_offset(id);
      if (offset == HADDR_UNDEF || static_cast<double>(offset) + bytes > static_cast<double>(valid_.file_size))
        fail(where, "data outside the file", "at most " + std::to_string(valid_.file_size) + " bytes");
      return;
    }
    if (layout != H5D_CHUNKED) fail(where, "a storage layout that traces do not use", "contiguous or chunked");
    std::array<hsize_t, 3> chunk{};
    double chunk_bytes = static_cast<double>(H5Tget_size(H5Id(H5Dget_type(id), "look at " + where)));
    const int rank = h5_check(H5Pget_chunk(creation, 3, chunk.data()), "look at " + where);
    for (int d = 0; d < std::min(rank, 3); ++d) chunk_bytes *= static_cast<double>(chunk[d]);
    if (rank > 3 || chunk_bytes > static_cast<double>(kMaxChunkBytes))
      fail(where, "chunks of " + std::to_string(chunk_bytes) + " bytes", "at most " + std::to_string(kMaxChunkBytes));
    check_filters(where, creation);
    compressed_ += bytes;
  }

  void check_filters(const std::string& where, hid_t creation) {
    if (const std::string foreign = foreign_filter(creation, where); !foreign.empty())
      fail(where, foreign, kOwnFilters, kRepack);
  }

  void read_committed() {
    auto& committed = valid_.trace.committed;
    committed = open_dataset("committed");
    H5Id type(H5Dget_type(committed), "look at /committed");
    H5Id space(H5Dget_space(committed), "look at /committed");
    if (H5Tequal(type, H5T_STD_I64LE) <= 0 || H5Sget_simple_extent_npoints(space) != 1)
      fail("/committed", "a different type or shape", "one 64-bit integer");
    check_storage("/committed", committed, sizeof(std::int64_t));
    std::int64_t n = 0;
    h5_check(H5Dread(committed, H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &n), "read /committed");
    const auto runs = valid_.extents[Axis::run];
    const bool complete = valid_.info.status != "partial";
    if (n < 0 || n > runs || n > INT32_MAX || (complete && n != runs))
      fail("/committed", std::to_string(n), (complete ? "" : "0 to ") + std::to_string(runs));
    valid_.info.n_runs = static_cast<int>(n);
  }

  void read_prompt_indices() {
    Extents begin{{}}, count;
    count[Axis::run] = valid_.info.n_runs;
    valid_.info.prompt_index.resize(static_cast<std::size_t>(valid_.info.n_runs));
    read_part(valid_.trace, Dataset::prompt_index, begin, count, valid_.info.prompt_index.data());
  }

  void read_cut_runs() {
    Extents begin{{}}, count;
    count[Axis::run] = valid_.info.n_runs;
    std::vector<std::uint8_t> status(static_cast<std::size_t>(valid_.info.n_runs));
    read_part(valid_.trace, Dataset::status, begin, count, status.data());
    for (int run = 0; run < valid_.info.n_runs; ++run) {
      const auto ended = static_cast<RunStatus>(status[static_cast<std::size_t>(run)]);
      if (ended == RunStatus::cancelled || ended == RunStatus::failed) valid_.info.cut_runs.push_back(run);
    }
  }

  void count_reads_and_changes() {
    Extents begin{{}}, count;
    count[Axis::run] = valid_.info.n_runs;
    std::vector<std::array<std::int64_t, 2>> spans(static_cast<std::size_t>(valid_.info.n_runs));
    const auto each_length = [&](Dataset id, Axis axis, auto use) {
      read_part(valid_.trace, id, begin, count, spans.data());
      for (const auto& [first, end] : spans)
        if (first >= 0 && first <= end && end <= valid_.extents[axis]) use(end - first);  // else loading it says so
    };
    each_length(Dataset::read_span, Axis::read, [&](std::int64_t n) { valid_.info.page_reads += n; });
    each_length(Dataset::changes_span, Axis::text_byte, [&](std::int64_t n) { valid_.info.changed_runs += n > 0; });
  }

  ValidTrace valid_;
  double compressed_ = 0;  // declared bytes of all chunked datasets
};

}  // namespace

ValidTrace open_valid(const std::filesystem::path& path) {
  hdf5_start();
  try {
    return Validator(path).open();
  } catch (const H5Error& error) {
    throw error.of_damage(path.string(), "trace");
  }
}

}  // namespace kvscope::trace

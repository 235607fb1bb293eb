#include "engine/core/trace/trace_shards.h"

#include <limits>

#include "engine/core/support/refuse.h"

namespace kvscope::trace {

namespace {

constexpr std::size_t kFilledColumns = kFilledAxes.size();

using Dims = std::array<hsize_t, 3>;

/// The axis along which the dataset goes from shard to shard, as an index of its dimensions.
int shard_dimension(const DatasetSchema& dataset) {
  for (int d = 0; d < dataset.rank(); ++d)
    if (grows(dataset.axes[d])) return d;
  return 0;
}

Dims dims_of(const DatasetSchema& dataset, const Extents& extents) {
  Dims dims{};
  for (int d = 0; d < dataset.rank(); ++d) dims[d] = static_cast<hsize_t>(extents[dataset.axes[d]]);
  return dims;
}

H5Id select(const DatasetSchema& dataset, const Dims& dims, const Dims& start, const Dims& count) {
  H5Id space(H5Screate_simple(dataset.rank(), dims.data(), nullptr), "prepare a virtual dataset");
  h5_check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
           "prepare a virtual dataset");
  return space;
}

/// Whether the selection is the box of that start and count.
bool is_box(hid_t space, const DatasetSchema& dataset, const Dims& start, const Dims& count) {
  Dims first{}, last{};
  const int rank = dataset.rank();
  if (H5Sget_simple_extent_ndims(space) != rank) return false;
  if (H5Sget_select_bounds(space, first.data(), last.data()) < 0) return false;
  hssize_t n = 1;
  for (int d = 0; d < rank; ++d) {
    if (first[d] != start[d] || last[d] != start[d] + count[d] - 1) return false;
    n *= static_cast<hssize_t>(count[d]);
  }
  return H5Sget_select_npoints(space) == n;
}

/// Calls use(shard, start, count) for each shard that has rows of the dataset.
template <typename Use>
void for_each_source(const DatasetSchema& dataset, const ShardTable& shards, Use use) {
  const int along = shard_dimension(dataset);
  const Axis axis = dataset.axes[along];
  Dims start{};
  for (std::size_t shard = 0; shard < shards.names.size(); ++shard) {
    const Dims count = dims_of(dataset, shards.filled[shard]);
    if (count[along] == 0) continue;
    start[along] = static_cast<hsize_t>(shards.offset(static_cast<int>(shard), axis));
    use(shard, start, count);
  }
}

template <typename T>
void set_fill(hid_t creation, Type type, T value) {
  h5_check(H5Pset_fill_value(creation, h5_type(type), &value), "prepare a virtual dataset");
}

std::string text_of(auto get) {
  std::string text(static_cast<std::size_t>(h5_check(get(nullptr, 0), "look at a virtual dataset")), '\0');
  h5_check(get(text.data(), text.size() + 1), "look at a virtual dataset");
  return text;
}

/// Values of a dataset that must have that type and these dimensions.
template <typename T>
std::vector<T> read_table(hid_t dataset, Type type, const std::vector<hsize_t>& dims, const char* name,
                          const std::string& file) {
  const std::string where = std::string("/shards/") + name;
  H5Id space(H5Dget_space(dataset), "look at " + where);
  H5Id stored(H5Dget_type(dataset), "look at " + where);
  Dims found{};
  hsize_t n = 1;
  bool fits = H5Sget_simple_extent_ndims(space) == static_cast<int>(dims.size()) &&
              H5Sget_simple_extent_dims(space, found.data(), nullptr) >= 0 && H5Tequal(stored, h5_type(type)) > 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    fits = fits && found[d] == dims[d];
    n *= dims[d];
  }
  if (!fits)
    throw Error({.file = file, .where = where, .found = "a different shape or type", .expected = "the format's"});
  std::vector<T> values(n);
  h5_check(H5Dread(dataset, h5_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "read " + where);
  return values;
}

}  // namespace

std::int64_t ShardTable::offset(int shard, Axis axis) const {
  std::int64_t offset = 0;
  for (int before = 0; before < shard; ++before) offset += filled[before][axis];
  return offset;
}

bool is_shard_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= kMaxShardName &&
         name.find_first_of(std::string_view("/%\0", 3)) == std::string::npos;
}

void set_sources(hid_t creation, const DatasetSchema& dataset, const Extents& extents, const ShardTable& shards) {
  const Dims dims = dims_of(dataset, extents), source_start{};
  for_each_source(dataset, shards, [&](std::size_t shard, const Dims& start, const Dims& count) {
    const H5Id target = select(dataset, dims, start, count);
    const H5Id source = select(dataset, dims_of(dataset, shards.extents[shard]), source_start, count);
    h5_check(H5Pset_virtual(creation, target, shards.names[shard].c_str(), dataset.path, source),
             "prepare a virtual dataset");
  });
  if (dataset.type == Type::f32) set_fill(creation, dataset.type, std::numeric_limits<float>::quiet_NaN());
  if (dataset.type == Type::i32) set_fill(creation, dataset.type, std::int32_t{-1});
  if (dataset.type == Type::i16) set_fill(creation, dataset.type, std::int16_t{-1});
}

void check_sources(hid_t creation, const DatasetSchema& dataset, const ShardTable& shards, const std::string& file) {
  std::size_t n = 0, expected = 0;
  h5_check(H5Pget_virtual_count(creation, &n), "look at a virtual dataset");
  for_each_source(dataset, shards, [&](std::size_t shard, const Dims& start, const Dims& count) {
    const std::size_t i = expected++;
    bool same = i < n;
    if (same) {
      const auto name =
          text_of([&](char* text, std::size_t size) { return H5Pget_virtual_filename(creation, i, text, size); });
      const auto path =
          text_of([&](char* text, std::size_t size) { return H5Pget_virtual_dsetname(creation, i, text, size); });
      const H5Id target(H5Pget_virtual_vspace(creation, i), "look at a virtual dataset");
      const H5Id source(H5Pget_virtual_srcspace(creation, i), "look at a virtual dataset");
      same = name == shards.names[shard] && path == dataset.path && is_box(target, dataset, start, count) &&
             is_box(source, dataset, Dims{}, count);
    }
    if (!same)
      refuse(file, std::string("/") + dataset.path, "a virtual dataset over other data",
             "rows of " + shards.names[shard] + ", as recorded in /shards");
  });
  if (n != expected)
    refuse(file, std::string("/") + dataset.path, "a virtual dataset over " + std::to_string(n) + " sources",
           std::to_string(expected) + ", as recorded in /shards");
}

void write_shards(hid_t file, const ShardTable& shards) {
  const H5Id group = create_group(file, "shards");
  write_text_list(group, "name", shards.names, "files of the shards, in this file's folder");
  std::vector<std::int64_t> filled;
  for (const Extents& extents : shards.filled) {
    for (const Axis axis : kFilledAxes) filled.push_back(extents[axis]);
  }
  const H5Id table = write_dataset(group, "filled", Type::i64, {shards.names.size(), kFilledColumns}, filled.data());
  write_attribute(table, "meaning",
                  "runs, tokens, contests, text bytes, piece bytes, reads and pages taken of each, its first");
  const H5Id of_run = write_dataset(group, "of_run", Type::i32, {shards.of_run.size()}, shards.of_run.data());
  write_attribute(of_run, "meaning", "which shard has the run's rows of the virtual datasets");
}

ShardTable read_shards(hid_t names, hid_t filled, hid_t of_run, const Extents& extents, const std::string& file) {
  const auto fail = [&](const char* where, std::string found, std::string expected) {
    throw Error({.file = file, .where = where, .found = std::move(found), .expected = std::move(expected)});
  };
  ShardTable table;
  table.names = read_text_list(names, "/shards/name", kMaxShardName, kMaxShards);
  for (const std::string& name : table.names)
    if (!is_shard_name(name)) fail("/shards/name", in_quotes(name), "the name of a file in the same folder");
  const auto values = read_table<std::int64_t>(filled, Type::i64, {table.names.size(), kFilledColumns}, "filled", file);
  Extents sum;
  for (std::size_t shard = 0; shard < table.names.size(); ++shard) {
    Extents& own = table.filled.emplace_back(extents);
    for (std::size_t column = 0; column < kFilledColumns; ++column) {
      const Axis axis = kFilledAxes[column];
      own[axis] = values[shard * kFilledColumns + column];
      if (own[axis] < 0 || own[axis] > extents[axis])
        fail("/shards/filled", std::to_string(own[axis]), "0 to " + std::to_string(extents[axis]));
      sum[axis] += own[axis];
    }
  }
  for (const Axis axis : kFilledAxes)
    if (sum[axis] != extents[axis])
      fail("/shards/filled", std::to_string(sum[axis]) + " " + kAxisNames[static_cast<int>(axis)] + "s in all",
           std::to_string(extents[axis]));
  table.of_run =
      read_table<std::int32_t>(of_run, Type::i32, {static_cast<hsize_t>(extents[Axis::run])}, "of_run", file);
  for (const auto shard : table.of_run)
    if (shard < 0 || shard >= static_cast<std::int64_t>(table.names.size()))
      fail("/shards/of_run", std::to_string(shard), "0 to " + std::to_string(table.names.size() - 1));
  return table;
}

}  // namespace kvscope::trace

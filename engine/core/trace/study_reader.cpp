// From an HDF5 file to a table; runs where a damaged file may do no harm.

#include <algorithm>

#include "engine/core/support/file.h"
#include "engine/core/trace/h5_filters.h"
#include "engine/core/trace/h5_handle.h"
#include "engine/core/trace/study_content.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::trace {
namespace {

/// Throws Error, and H5Error where HDF5 refuses.
class Reader {
 public:
  Reader(const std::string& path, hid_t file) : path_(path), file_(file) {}

  StudyTable table() {
    const auto version = read_integer_attribute(file_, "version");
    if (version != kStudyVersion) {
      fail("version", std::to_string(version), "version " + std::to_string(kStudyVersion));
    }
    StudyTable table;
    table.kind = read_text_attribute(file_, "kind");
    table.request = scalar_text("request");
    table.facts = scalar_text("facts");
    for (const std::string& name : names_in("point")) table.columns.push_back(column("point/" + name, name));
    for (const std::string& name : names_in("array")) table.arrays.push_back(array("array/" + name, name));
    if (read_integer_attribute(file_, "checksum") != static_cast<std::int64_t>(study_checksum(table))) {
      fail("checksum", "its values do not match their checksum", "a whole KVScope study");
    }
    return table;
  }

 private:
  [[noreturn]] void fail(const std::string& where, std::string found, std::string expected) const {
    throw Error({.file = path_, .where = where, .found = std::move(found), .expected = std::move(expected)});
  }

  /// What a name leads to, if that is in this file. Soft and external links could lead to other files.
  H5Id open(const std::string& name, H5I_type_t kind) const {
    H5L_info_t info;
    h5_check(H5Lget_info(file_, name.c_str(), &info, H5P_DEFAULT), "look at " + name);
    if (info.type != H5L_TYPE_HARD) fail(name, "a link to another place", "the data itself");
    H5Id object(H5Oopen(file_, name.c_str(), H5P_DEFAULT), "open " + name);
    if (H5Iget_type(object) != kind)
      fail(name, "a different kind of object", kind == H5I_GROUP ? "a group" : "a dataset");
    return object;
  }

  H5Id open_dataset(const std::string& name) const {
    H5Id dataset = open(name, H5I_DATASET);
    const H5Id creation(H5Dget_create_plist(dataset), "look at " + name);
    if (H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) != 0) {
      fail(name, "data in another file", "data in this file");
    }
    if (const std::string foreign = foreign_filter(creation, name); !foreign.empty()) {
      throw Error({.file = path_, .where = name, .found = foreign, .expected = kOwnFilters, .hint = kRepack});
    }
    return dataset;
  }

  std::vector<std::string> names_in(const char* group_name) const {
    const H5Id group = open(group_name, H5I_GROUP);
    H5G_info_t info;
    h5_check(H5Gget_info(group, &info), std::string("look at ") + group_name);
    if (info.nlinks > kMostStudyNames) fail(group_name, std::to_string(info.nlinks) + " names", "4096 at most");
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      char name[128] = "";
      h5_check(H5Lget_name_by_idx(group, ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT),
               std::string("list ") + group_name);
      names.emplace_back(name);
    }
    return names;
  }

  /// Lengths of the axes; all that is read counts against the limit before memory is asked for.
  std::vector<hsize_t> shape_of(hid_t dataset, std::size_t element, const std::string& name) {
    const H5Id space(H5Dget_space(dataset), "look at " + name);
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > H5S_MAX_RANK) fail(name, "no shape", "numbers or texts");
    std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
    if (rank > 0) h5_check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), "look at " + name);
    double bytes = static_cast<double>(element);
    for (const hsize_t n : shape) bytes *= static_cast<double>(n);
    bytes_ += bytes;
    if (!(bytes_ <= static_cast<double>(kMostStudyBytes))) fail(name, "more than 256 MiB of values", "a study");
    return shape;
  }

  std::string scalar_text(const char* name) {
    const std::vector<std::string> texts = texts_of(open_dataset(name), name, 0);
    return texts[0];
  }

  std::vector<std::string> texts_of(hid_t dataset, const std::string& name, std::size_t rank) {
    const H5Id type(H5Dget_type(dataset), "look at " + name);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0) {
      fail(name, "not text", "strings of fixed length");
    }
    const std::size_t width = H5Tget_size(type);
    const std::vector<hsize_t> shape = shape_of(dataset, width, name);
    if (shape.size() != rank || width == 0) fail(name, "a different shape", rank == 0 ? "one text" : "a list of texts");
    const std::size_t n = rank == 0 ? 1 : static_cast<std::size_t>(shape[0]);
    std::string bytes(width * n, '\0');
    if (n > 0) h5_check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "read " + name);
    std::vector<std::string> texts(n);
    for (std::size_t i = 0; i < n; ++i) {
      texts[i].assign(bytes, i * width, width);
      texts[i].resize(texts[i].find_last_not_of('\0') + 1);
    }
    return texts;
  }

  bool is_float32(hid_t dataset, const std::string& name) const {
    const H5Id type(H5Dget_type(dataset), "look at " + name);
    return H5Tequal(type, H5T_IEEE_F32LE) > 0;
  }

  /// Of float64, or where the caller has found it so of float32: HDF5 makes it float64.
  std::vector<double> numbers_of(hid_t dataset, const std::string& name, std::vector<hsize_t>& shape,
                                 bool of_float32 = false) {
    const H5Id type(H5Dget_type(dataset), "look at " + name);
    if (!of_float32 && H5Tequal(type, H5T_IEEE_F64LE) <= 0) fail(name, "a different type", "float64, little-endian");
    shape = shape_of(dataset, sizeof(double), name);
    std::size_t n = 1;
    for (const hsize_t length : shape) n *= static_cast<std::size_t>(length);
    std::vector<double> numbers(n);
    if (n > 0) {
      h5_check(H5Dread(dataset, H5T_IEEE_F64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), "read " + name);
    }
    return numbers;
  }

  StudyColumn column(const std::string& path, const std::string& name) {
    const H5Id dataset = open_dataset(path);
    StudyColumn column{.name = name,
                       .units = read_text_attribute(dataset, "units"),
                       .meaning = read_text_attribute(dataset, "meaning")};
    const H5Id type(H5Dget_type(dataset), "look at " + path);
    column.is_text = H5Tget_class(type) == H5T_STRING;
    std::vector<hsize_t> shape = {0};
    if (column.is_text) {
      column.texts = texts_of(dataset, path, 1);
    } else {
      column.numbers = numbers_of(dataset, path, shape);
    }
    if (shape.size() != 1) fail(path, "not one number per point", "a list of numbers");
    return column;
  }

  StudyArray array(const std::string& path, const std::string& name) {
    const H5Id dataset = open_dataset(path);
    StudyArray array{.name = name,
                     .units = read_text_attribute(dataset, "units"),
                     .meaning = read_text_attribute(dataset, "meaning"),
                     .axes = read_texts_attribute(dataset, "axes")};
    std::vector<hsize_t> shape;
    array.is_float32 = is_float32(dataset, path);
    array.values = numbers_of(dataset, path, shape, array.is_float32);
    array.shape.assign(shape.begin(), shape.end());
    return array;
  }

  const std::string& path_;
  hid_t file_;
  double bytes_ = 0;
};

/// What the file calls itself; nothing if it says nothing.
std::string format_of(hid_t file) {
  try {
    return read_text_attribute(file, "format");
  } catch (const H5Error&) {
    return "";
  }
}

}  // namespace

StudyTable read_study_here(const std::string& path) {
  hdf5_start();
  std::uint64_t size = 0;
  open_regular_file(path, size);  // HDF5 would wait for who writes to a FIFO
  if (size > kMostStudyBytes) throw NoStudy{"larger than 256 MiB"};
  H5Id file;
  try {
    const H5Id access = file_access();
    file = H5Id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), "open");
  } catch (const H5Error&) {
    throw NoStudy{"not an HDF5 file, or a damaged one"};
  }
  const std::string format = format_of(file);
  if (format != kStudyFormat) {
    throw NoStudy{format == kFormat ? "a KVScope trace" : "an HDF5 file that is not a KVScope study"};
  }
  try {
    return Reader(path, file).table();
  } catch (const H5Error& error) {
    throw error.of_damage(path, "study");
  }
}

}  // namespace kvscope::trace

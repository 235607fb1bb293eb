#include "engine/core/trace/netcdf_file.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "engine/core/support/plain_text.h"

namespace kvscope::trace {
namespace {

constexpr std::size_t kImageStep = 1 << 20;
constexpr std::size_t kMaxAttribute = 60000;
constexpr hsize_t kMostInChunk = 1 << 18;  // values
constexpr hsize_t kWorthPacking = 1 << 13;
constexpr unsigned kOrdered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

H5Id new_file() {
  const H5Id access = file_access();
  h5_check(H5Pset_fapl_core(access, kImageStep, false), "prepare a file");
  const H5Id creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file");
  h5_check(H5Pset_obj_track_times(creation, false), "prepare a file");
  h5_check(H5Pset_link_creation_order(creation, kOrdered), "prepare a file");
  h5_check(H5Pset_attr_creation_order(creation, kOrdered), "prepare a file");
  return H5Id(H5Fcreate("netcdf", H5F_ACC_TRUNC, creation, access), "make a file in memory");
}

H5Id string_type() {
  H5Id type(H5Tcopy(H5T_C_S1), "make a string type");
  h5_check(H5Tset_size(type, H5T_VARIABLE), "size a string type");
  h5_check(H5Tset_cset(type, H5T_CSET_UTF8), "make a string type");
  return type;
}

H5Id list_of(hsize_t n) { return H5Id(H5Screate_simple(1, &n, nullptr), "make a list"); }

void write_list(hid_t object, const char* name, hid_t type, hsize_t n, const void* values) {
  const std::string action = std::string("write attribute ") + name;
  const H5Id attribute(H5Acreate2(object, name, type, list_of(n), H5P_DEFAULT, H5P_DEFAULT), action);
  h5_check(H5Awrite(attribute, type, values), action);
}

/// Of HDF5's specification of dimension scales, whose own functions take a text for one only if a NUL ends it.
void write_scale_text(hid_t dataset, const char* name, const std::string& text) {
  const H5Id type(H5Tcopy(H5T_C_S1), "make a string type");
  h5_check(H5Tset_size(type, text.size() + 1), "size a string type");
  const H5Id scalar(H5Screate(H5S_SCALAR), "make a scalar");
  const std::string action = std::string("write attribute ") + name;
  const H5Id attribute(H5Acreate2(dataset, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT), action);
  h5_check(H5Awrite(attribute, type, text.c_str()), action);
}

/// Rows of the innermost dimensions together, so that a chunk is read for a head or a few. What is small, and texts,
/// whose heap no filter reaches, lie in one piece.
H5Id storage(const std::vector<hsize_t>& dims, hid_t type) {
  H5Id creation = dataset_creation();
  h5_check(H5Pset_attr_creation_order(creation, kOrdered), "prepare a dataset");
  hsize_t values = 1;
  for (const hsize_t n : dims) values *= n;
  if (H5Tget_class(type) == H5T_STRING) {  // of any length: HDF5 wants them to begin as something
    h5_check(H5Pset_fill_time(creation, H5D_FILL_TIME_IFSET), "prepare a dataset");
    return creation;
  }
  if (values < kWorthPacking) return creation;
  std::vector<hsize_t> chunk(dims.size(), 1);
  hsize_t room = kMostInChunk;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    chunk[axis] = std::min(dims[axis], room);
    room = std::max<hsize_t>(room / chunk[axis], 1);
  }
  h5_check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), "prepare a dataset");
  h5_check(H5Pset_shuffle(creation), "prepare a dataset");
  h5_check(H5Pset_deflate(creation, 4), "prepare a dataset");
  return creation;
}

}  // namespace

NetcdfFile::NetcdfFile() : file_(new_file()) {}

void NetcdfFile::attribute(const char* name, std::string_view text) {
  const std::string plain = plain_text(text);
  if (!plain.empty() && plain.size() <= kMaxAttribute) write_attribute(file_, name, plain);
}

void NetcdfFile::attribute(const char* name, std::int64_t value) { write_attribute(file_, name, value); }

void NetcdfFile::attribute(const char* name, double value) { write_list(file_, name, H5T_IEEE_F64LE, 1, &value); }

void NetcdfFile::dimension(const std::string& name, std::int64_t length, const std::string& long_name) {
  if (length < 1) throw std::invalid_argument("NetcdfFile: " + name + " is empty");
  std::vector<std::int32_t> values(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  const std::vector<hsize_t> dims = {static_cast<hsize_t>(length)};
  const H5Id space(H5Screate_simple(1, dims.data(), nullptr), "make " + name);
  const H5Id dataset(
      H5Dcreate2(file_, name.c_str(), H5T_STD_I32LE, space, H5P_DEFAULT, storage(dims, H5T_STD_I32LE), H5P_DEFAULT),
      "write " + name);
  h5_check(H5Dwrite(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "write " + name);
  // The third is netCDF's own: in which order dimensions were made.
  write_scale_text(dataset, "CLASS", "DIMENSION_SCALE");
  write_scale_text(dataset, "NAME", name);
  const auto id = static_cast<std::int32_t>(dimensions_.size());
  const H5Id scalar(H5Screate(H5S_SCALAR), "make a scalar");
  const H5Id number(H5Acreate2(dataset, "_Netcdf4Dimid", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT),
                    "write _Netcdf4Dimid");
  h5_check(H5Awrite(number, H5T_STD_I32LE, &id), "write _Netcdf4Dimid");
  write_attribute(dataset, "long_name", long_name);
  Dimension& made = dimensions_[name];
  made.length = length;
  h5_check(H5Rcreate(&made.scale, file_, name.c_str(), H5R_OBJECT, -1), "refer to " + name);
}

void NetcdfFile::describe(hid_t dataset, const Variable& variable, hid_t type) {
  if (H5Tget_class(type) == H5T_FLOAT) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    const float short_none = std::numeric_limits<float>::quiet_NaN();
    const void* fill = H5Tget_size(type) == sizeof(double) ? static_cast<const void*>(&none) : &short_none;
    write_list(dataset, "_FillValue", type, 1, fill);
  }
  write_attribute(dataset, "long_name", variable.long_name);
  if (!variable.units.empty()) write_attribute(dataset, "units", variable.units);
  if (!variable.coordinates.empty()) write_attribute(dataset, "coordinates", variable.coordinates);
  if (variable.flags.empty()) return;
  std::vector<std::int32_t> values;
  std::string meanings;
  for (const auto& [value, meaning] : variable.flags) {
    values.push_back(static_cast<std::int32_t>(value));
    meanings += (meanings.empty() ? "" : " ") + meaning;
  }
  if (H5Tget_size(type) == 1) {  // of the variable's own type, as CF wants it
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    write_list(dataset, "flag_values", type, bytes.size(), bytes.data());
  } else {
    write_list(dataset, "flag_values", type, values.size(), values.data());
  }
  write_attribute(dataset, "flag_meanings", meanings);
}

/// DIMENSION_LIST: of each dimension, the list of the one scale that it has.
void NetcdfFile::attach_scales(hid_t dataset, const Variable& variable) {
  hobj_ref_t self = 0;
  h5_check(H5Rcreate(&self, file_, variable.name.c_str(), H5R_OBJECT, -1), "refer to " + variable.name);
  std::vector<hvl_t> lists;
  for (std::size_t i = 0; i < variable.dimensions.size(); ++i) {
    Dimension& dimension = dimensions_.at(variable.dimensions[i]);
    dimension.uses.push_back({self, static_cast<int>(i)});
    lists.push_back({1, &dimension.scale});
  }
  const H5Id type(H5Tvlen_create(H5T_STD_REF_OBJ), "make a type");
  write_list(dataset, "DIMENSION_LIST", type, lists.size(), lists.data());
}

void NetcdfFile::add(const Variable& variable, hid_t type, std::size_t n_values, const void* values) {
  std::vector<hsize_t> dims;
  std::size_t n = 1;
  for (const std::string& name : variable.dimensions) {
    dims.push_back(static_cast<hsize_t>(dimensions_.at(name).length));
    n *= static_cast<std::size_t>(dims.back());
  }
  if (n != n_values) throw std::invalid_argument("NetcdfFile: " + variable.name + " has another shape");
  const std::string action = "write " + variable.name;
  const H5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), action);
  const H5Id dataset(
      H5Dcreate2(file_, variable.name.c_str(), type, space, H5P_DEFAULT, storage(dims, type), H5P_DEFAULT), action);
  h5_check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), action);
  attach_scales(dataset, variable);
  describe(dataset, variable, type);
}

void NetcdfFile::add(const Variable& variable, std::span<const float> values) {
  add(variable, H5T_IEEE_F32LE, values.size(), values.data());
}
void NetcdfFile::add(const Variable& variable, std::span<const double> values) {
  add(variable, H5T_IEEE_F64LE, values.size(), values.data());
}
void NetcdfFile::add(const Variable& variable, std::span<const std::int32_t> values) {
  add(variable, H5T_STD_I32LE, values.size(), values.data());
}
void NetcdfFile::add(const Variable& variable, std::span<const std::uint8_t> values) {
  add(variable, H5T_STD_U8LE, values.size(), values.data());
}

void NetcdfFile::add(const Variable& variable, const std::vector<std::string>& texts) {
  std::vector<std::string> plain;
  for (const std::string& text : texts) plain.push_back(plain_text(text));
  std::vector<const char*> pointers;
  for (const std::string& text : plain) pointers.push_back(text.c_str());
  add(variable, string_type(), pointers.size(), pointers.data());
}

std::string NetcdfFile::bytes() {
  const H5Id use(H5Tcreate(H5T_COMPOUND, sizeof(Use)), "make a type");
  h5_check(H5Tinsert(use, "dataset", HOFFSET(Use, variable), H5T_STD_REF_OBJ), "make a type");
  h5_check(H5Tinsert(use, "dimension", HOFFSET(Use, place), H5T_NATIVE_INT), "make a type");
  for (const auto& [name, dimension] : dimensions_) {
    if (dimension.uses.empty()) continue;
    const H5Id dataset(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), "open " + name);
    write_list(dataset, "REFERENCE_LIST", use, dimension.uses.size(), dimension.uses.data());
  }
  h5_check(H5Fflush(file_, H5F_SCOPE_GLOBAL), "flush");
  std::string image(static_cast<std::size_t>(h5_check(H5Fget_file_image(file_, nullptr, 0), "measure the file")), '\0');
  h5_check(H5Fget_file_image(file_, image.data(), image.size()), "copy the file");
  file_.reset();
  return image;
}

}  // namespace kvscope::trace

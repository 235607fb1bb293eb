#include "engine/core/trace/h5_handle.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <mutex>

#include "engine/core/trace/trace_file.h"

namespace kvscope {

void hdf5_start() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Before any other call: the handler that would run at exit crashes if a file could not be written.
    // A file may name a filter; it may not make us load a library.
    if (H5dont_atexit() < 0 || H5open() < 0 || H5PLset_loading_state(0) < 0) {
      throw Error({.code = ExitCode::resource,
                   .file = "HDF5",
                   .found = "the library does not start",
                   .expected = "some memory"});
    }
    // A file-size limit is then an error of write() that we report, not the end of the process.
    std::signal(SIGXFSZ, SIG_IGN);
  });
  // The error stack, and whether it prints itself, belong to the thread in HDF5's thread-safe build.
  thread_local const bool quiet = [] { return H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0; }();
  (void)quiet;
}

}  // namespace kvscope

namespace kvscope::trace {

namespace {

constexpr std::size_t kMaxAttribute = 60000;  // an object header message ends at 64 KiB

/// What HDF5 says at the innermost call, and the errno that it tells in prose if a system call failed.
struct Failure {
  std::string text;
  int error = 0;
};

herr_t look_at(unsigned n, const H5E_error2_t* entry, void* out) {
  Failure& failure = *static_cast<Failure*>(out);
  const std::string text = entry->desc ? entry->desc : "";
  if (n == 0) failure.text = text;
  constexpr std::string_view kErrno = "errno = ";
  const auto at = text.find(kErrno);
  if (at != text.npos && failure.error == 0) failure.error = std::atoi(text.c_str() + at + kErrno.size());
  return 0;
}

/// HDF5 converts no text between ASCII, which other writers call it, and UTF-8, which has the same bytes.
H5Id text_type(std::size_t bytes, H5T_cset_t set = H5T_CSET_UTF8) {
  H5Id type(H5Tcopy(H5T_C_S1), "make a string type");
  h5_check(H5Tset_size(type, bytes == 0 ? 1 : bytes), "size a string type");
  h5_check(H5Tset_strpad(type, H5T_STR_NULLPAD), "pad a string type");
  h5_check(H5Tset_cset(type, set), "make a string type");
  return type;
}

void write_raw_attribute(hid_t object, const char* name, hid_t type, hid_t space, const void* data) {
  const std::string action = std::string("write attribute ") + name;
  H5Id attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), action);
  h5_check(H5Awrite(attribute, type, data), action);
}

H5Id write_whole(hid_t parent, const char* path, hid_t type, hid_t space, const void* values) {
  const std::string action = std::string("write ") + path;
  H5Id dataset(H5Dcreate2(parent, path, type, space, H5P_DEFAULT, dataset_creation(), H5P_DEFAULT), action);
  try {
    h5_check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), action);
    h5_check(H5Dflush(dataset), action);  // small data would wait for the close, which reports no failure
  } catch (...) {
    // HDF5 1.14 frees a dataset that it cannot close, keeps its id, and crashes when any other file is closed.
    dataset.leak();
    throw;
  }
  return dataset;
}

/// Texts of one width, one after the other.
struct PaddedTexts {
  explicit PaddedTexts(const std::vector<std::string>& texts) {
    for (const auto& text : texts) width = std::max(width, text.size());
    bytes.resize(width * texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) std::memcpy(&bytes[i * width], texts[i].data(), texts[i].size());
  }
  std::size_t width = 1;
  std::string bytes;
};

}  // namespace

H5Error::H5Error(std::string action, std::string reason, Teller teller)
    : std::runtime_error(action + ": " + reason),
      action_(std::move(action)),
      reason_(std::move(reason)),
      teller_(teller) {}

Error H5Error::of_file(std::string file, std::string hint) const {
  return Error({.code = ExitCode::resource,
                .file = std::move(file),
                .where = teller_ == Teller::system ? "" : action_,
                .found = reason_,
                .hint = std::move(hint)});
}

Error H5Error::of_damage(std::string file, const std::string& kind, const std::string& part) const {
  const bool of_system = teller_ == Teller::system;
  return Error({.file = std::move(file),
                .where = part + action_,
                .found = teller_ == Teller::library ? "the file is damaged" : reason_,
                .expected = "a whole KVScope " + kind,
                .hint = of_system ? "" : "copy it again, or create it again"});
}

void throw_h5(std::string_view action) {
  Failure failure;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look_at, &failure);
  H5Eclear2(H5E_DEFAULT);
  if (failure.error != 0) throw H5Error(std::string(action), std::strerror(failure.error), H5Error::Teller::system);
  throw H5Error(std::string(action), failure.text.empty() ? "HDF5 refused" : failure.text, H5Error::Teller::library);
}

hid_t h5_type(Type type) {
  switch (type) {
    case Type::u8:
      return H5T_STD_U8LE;
    case Type::i16:
      return H5T_STD_I16LE;
    case Type::i32:
      return H5T_STD_I32LE;
    case Type::i64:
      return H5T_STD_I64LE;
    case Type::u64:
      return H5T_STD_U64LE;
    case Type::f32:
      return H5T_IEEE_F32LE;
    case Type::f64:
      return H5T_IEEE_F64LE;
  }
  return -1;
}

void write_attribute(hid_t object, const char* name, std::string_view text) {
  if (text.size() > kMaxAttribute) throw H5Error(std::string("write attribute ") + name, "longer than 60000 bytes");
  std::string padded(text);
  if (padded.empty()) padded.push_back('\0');
  write_raw_attribute(object, name, text_type(padded.size()), H5Id(H5Screate(H5S_SCALAR), "make a scalar"),
                      padded.data());
}

void write_attribute(hid_t object, const char* name, const std::vector<std::string>& texts) {
  const PaddedTexts padded(texts);
  const hsize_t n = texts.size();
  write_raw_attribute(object, name, text_type(padded.width), H5Id(H5Screate_simple(1, &n, nullptr), "make a list"),
                      padded.bytes.data());
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  write_raw_attribute(object, name, H5T_STD_I64LE, H5Id(H5Screate(H5S_SCALAR), "make a scalar"), &value);
}

std::vector<std::string> read_texts_attribute(hid_t object, const char* name) {
  const std::string action = std::string("read attribute ") + name;
  H5Id attribute(H5Aopen(object, name, H5P_DEFAULT), action);
  H5Id type(H5Aget_type(attribute), action);
  H5Id space(H5Aget_space(attribute), action);
  const auto n = H5Sget_simple_extent_npoints(space);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || n < 0)
    throw H5Error(action, "not strings of fixed length");
  const std::size_t width = H5Tget_size(type);
  if (width == 0 || width > kMaxAttribute || static_cast<std::size_t>(n) > kMaxAttribute / width)
    throw H5Error(action, "longer than 60000 bytes");
  std::string bytes(width * static_cast<std::size_t>(n), '\0');
  if (n > 0) h5_check(H5Aread(attribute, text_type(width, H5Tget_cset(type)), bytes.data()), action);
  std::vector<std::string> texts(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i].assign(bytes, i * width, width);
    texts[i].resize(texts[i].find_last_not_of('\0') + 1);
  }
  return texts;
}

std::string read_text_attribute(hid_t object, const char* name) {
  std::vector<std::string> texts = read_texts_attribute(object, name);
  if (texts.size() != 1) throw H5Error(std::string("read attribute ") + name, "not a string of fixed length");
  return std::move(texts[0]);
}

std::int64_t read_integer_attribute(hid_t object, const char* name) {
  const std::string action = std::string("read attribute ") + name;
  H5Id attribute(H5Aopen(object, name, H5P_DEFAULT), action);
  H5Id type(H5Aget_type(attribute), action);
  H5Id space(H5Aget_space(attribute), action);
  if (H5Tequal(type, H5T_STD_I64LE) <= 0 || H5Sget_simple_extent_npoints(space) != 1)
    throw H5Error(action, "not one 64-bit integer");
  std::int64_t value = 0;
  h5_check(H5Aread(attribute, H5T_STD_I64LE, &value), action);
  return value;
}

H5Id create_group(hid_t parent, const char* path) {
  H5Id creation(H5Pcreate(H5P_GROUP_CREATE), "prepare a group");
  h5_check(H5Pset_obj_track_times(creation, false), "prepare a group");
  return H5Id(H5Gcreate2(parent, path, H5P_DEFAULT, creation, H5P_DEFAULT), std::string("create group ") + path);
}

H5Id dataset_creation() {
  H5Id creation(H5Pcreate(H5P_DATASET_CREATE), "prepare a dataset");
  h5_check(H5Pset_obj_track_times(creation, false), "prepare a dataset");
  h5_check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "prepare a dataset");
  return creation;
}

H5Id write_dataset(hid_t parent, const char* name, Type type, const std::vector<hsize_t>& dims, const void* values) {
  const H5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), std::string("write ") + name);
  return write_whole(parent, name, h5_type(type), space, values);
}

void write_text_dataset(hid_t parent, const char* path, std::string_view text) {
  const H5Id space(H5Screate(H5S_SCALAR), "make a scalar");
  write_whole(parent, path, text_type(text.size()), space, text.data());
}

void write_text_list(hid_t parent, const char* name, const std::vector<std::string>& texts, const char* meaning) {
  const PaddedTexts padded(texts);
  const hsize_t n = texts.size();
  const H5Id space(H5Screate_simple(1, &n, nullptr), "make a list");
  write_attribute(write_whole(parent, name, text_type(padded.width), space, padded.bytes.data()), "meaning", meaning);
}

std::vector<std::string> read_text_list(hid_t dataset, const char* name, std::size_t max_bytes, std::int64_t max_n) {
  const std::string action = std::string("read ") + name;
  H5Id type(H5Dget_type(dataset), action);
  H5Id space(H5Dget_space(dataset), action);
  const auto n = H5Sget_simple_extent_npoints(space);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || H5Sget_simple_extent_ndims(space) != 1)
    throw H5Error(action, "not a list of strings of fixed length");
  const std::size_t width = H5Tget_size(type);
  if (n < 1 || n > max_n || width < 1 || width > max_bytes) throw H5Error(action, "too many strings, or too long ones");
  std::string bytes(width * static_cast<std::size_t>(n), '\0');
  h5_check(H5Dread(dataset, text_type(width, H5Tget_cset(type)), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), action);
  std::vector<std::string> texts;
  for (hssize_t i = 0; i < n; ++i) {
    std::string text = bytes.substr(static_cast<std::size_t>(i) * width, width);
    text.resize(text.find_last_not_of('\0') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

void flush_to_disk(hid_t file) {
  h5_check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
  void* handle = nullptr;
  h5_check(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle), "flush");
  if (::fsync(*static_cast<int*>(handle)) != 0)
    throw H5Error("sync to disk", std::strerror(errno), H5Error::Teller::system);
}

std::optional<std::uint64_t> whole_size(std::string_view head) {
  if (head.size() < 9) return std::nullopt;
  const std::size_t at = head[8] >= 2 ? 28 : head[8] == 1 ? 44 : 40;
  std::uint64_t end = 0, begin = 0;  // the latter is past a user block, also of a file from which it was taken away
  if (head.size() < at + sizeof end) return std::nullopt;
  std::memcpy(&end, head.data() + at, sizeof end);
  std::memcpy(&begin, head.data() + at - 16, sizeof begin);
  return end - std::min(begin, end);
}

H5Id file_access() {
  H5Id access(H5Pcreate(H5P_FILE_ACCESS), "prepare a file");
  h5_check(H5Pset_file_locking(access, false, true), "prepare a file");
  h5_check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "prepare a file");
  // HDF5 reads and rewrites a whole buffer around each row that is shorter than the buffer. Rows of a run are far apart in a
  // file that has room for thousands, so the buffer is as small as it can be.
  h5_check(H5Pset_sieve_buf_size(access, 1), "prepare a file");
  return access;
}

}  // namespace kvscope::trace

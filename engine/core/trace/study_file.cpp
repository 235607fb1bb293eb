// The writer's side, and the guarded reader's.

#include "engine/core/trace/study_file.h"

#include "engine/core/support/file.h"
#include "engine/core/trace/confined_child.h"
#include "engine/core/trace/guarded_child.h"
#include "engine/core/trace/h5_handle.h"
#include "engine/core/trace/study_content.h"

namespace kvscope {
namespace {

using namespace trace;
namespace fs = std::filesystem;

constexpr const char* kWanted = "a whole KVScope study";
constexpr std::size_t kImageStep = 1 << 20;

/// What the format cannot hold: strings of fixed length end before the zeros behind them.
void check_storable(const StudyTable& table, const std::string& file) {
  double bytes = static_cast<double>(table.request.size() + table.facts.size());
  const auto check_text = [&](const std::string& text, const std::string& where) {
    if (text.find('\0') == std::string::npos) return;
    throw Error({.file = file, .where = where, .found = "a NUL character in a text"});
  };
  check_text(table.kind, "kind"), check_text(table.request, "request"), check_text(table.facts, "facts");
  for (const StudyColumn& column : table.columns) {
    for (const auto* text : {&column.units, &column.meaning}) check_text(*text, column.name);
    std::size_t width = 1;
    for (const std::string& text : column.texts) check_text(text, column.name), width = std::max(width, text.size());
    bytes += static_cast<double>(column.size()) * static_cast<double>(column.is_text ? width : sizeof(double));
  }
  for (const StudyArray& array : table.arrays) {
    for (const auto* text : {&array.units, &array.meaning}) check_text(*text, array.name);
    bytes += static_cast<double>(array.values.size() * sizeof(double));  // as a reader has them
  }
  const std::size_t names = std::max(table.columns.size(), table.arrays.size());
  if (bytes > static_cast<double>(kMostStudyBytes - kImageStep) || names > kMostStudyNames) {
    throw Error(
        {.file = file, .found = "a study that is too large", .expected = "256 MiB, 4096 columns and arrays at most"});
  }
}

/// A group that says in which order its datasets were made.
H5Id create_ordered_group(hid_t file, const char* name) {
  H5Id creation(H5Pcreate(H5P_GROUP_CREATE), "prepare a group");
  h5_check(H5Pset_obj_track_times(creation, false), "prepare a group");
  h5_check(H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "prepare a group");
  return H5Id(H5Gcreate2(file, name, H5P_DEFAULT, creation, H5P_DEFAULT), std::string("create group ") + name);
}

void write_column(hid_t group, const StudyColumn& column) {
  if (column.is_text) {
    write_text_list(group, column.name.c_str(), column.texts, column.meaning.c_str());
    H5Id dataset(H5Dopen2(group, column.name.c_str(), H5P_DEFAULT), "open " + column.name);
    write_attribute(dataset, "units", column.units);
    return;
  }
  const H5Id dataset = write_dataset(group, column.name.c_str(), Type::f64, {column.size()}, column.numbers.data());
  write_attribute(dataset, "meaning", column.meaning);
  write_attribute(dataset, "units", column.units);
}

void write_array(hid_t group, const StudyArray& array) {
  const std::vector<hsize_t> dims(array.shape.begin(), array.shape.end());
  const std::vector<float> floats(array.values.begin(), array.is_float32 ? array.values.end() : array.values.begin());
  const void* values = array.is_float32 ? static_cast<const void*>(floats.data()) : array.values.data();
  const H5Id dataset = write_dataset(group, array.name.c_str(), array.is_float32 ? Type::f32 : Type::f64, dims, values);
  write_attribute(dataset, "meaning", array.meaning);
  write_attribute(dataset, "units", array.units);
  write_attribute(dataset, "axes", array.axes);
}

void write_all_of(hid_t file, const StudyTable& table) {
  write_attribute(file, "format", kStudyFormat);
  write_attribute(file, "version", kStudyVersion);
  write_attribute(file, "kind", table.kind);
  write_attribute(file, "checksum", static_cast<std::int64_t>(study_checksum(table)));
  write_text_dataset(file, "request", table.request);
  write_text_dataset(file, "facts", table.facts);
  const H5Id point = create_ordered_group(file, "point");
  for (const StudyColumn& column : table.columns) write_column(point, column);
  const H5Id array_group = create_ordered_group(file, "array");
  for (const StudyArray& array : table.arrays) write_array(array_group, array);
}

/// In memory: HDF5 never sees the disk, whose failures AtomicFile reports.
std::string image_of(const StudyTable& table) {
  const H5Id access = file_access();
  h5_check(H5Pset_fapl_core(access, kImageStep, false), "prepare a file");
  H5Id file(H5Fcreate("study", H5F_ACC_TRUNC, H5P_DEFAULT, access), "make a file in memory");
  write_all_of(file, table);
  h5_check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
  std::string bytes(static_cast<std::size_t>(h5_check(H5Fget_file_image(file, nullptr, 0), "measure the file")), '\0');
  h5_check(H5Fget_file_image(file, bytes.data(), bytes.size()), "copy the file");
  return bytes;
}

/// The body of the child's frame: 1 and the study, or 0 and what else the file is.
std::string answer_of(const std::string& path) {
  MessageWriter out;
  try {
    const StudyTable table = read_study_here(path);
    out.put(std::uint8_t{1});
    put_study(out, table);
  } catch (const NoStudy& no) {
    out.put(std::uint8_t{0});
    out.put(no.found);
  }
  return out.bytes();
}

/// Throws NoStudy.
StudyTable read_guarded(const fs::path& program, const fs::path& path) {
  GuardedChild child(program, "--study-child", path, kWanted, {});
  const std::string body = child.answer([&] { return child.frame(MessageKind::study, 2 * kMostStudyBytes); });
  return child.answer([&] {
    MessageReader in(body);
    if (in.get<std::uint8_t>() == 0) throw NoStudy{std::string(in.text())};
    return get_study(in);
  });
}

StudyTable read_any(const fs::path& program, const fs::path& path) {
  StudyTable table = program.empty() ? read_study_here(path.string()) : read_guarded(program, path);
  check_study(table, path.string());
  return table;
}

}  // namespace

std::string study_bytes(const StudyTable& table, const std::string& file) {
  hdf5_start();
  check_study(table, file);
  check_storable(table, file);
  try {
    return image_of(table);
  } catch (const H5Error& error) {
    throw error.of_file(file, "");
  }
}

void write_study(const fs::path& path, const StudyTable& table, bool replace, std::span<const fs::path> inputs) {
  writable_target(path, replace, inputs);
  const std::string bytes = study_bytes(table, path.string());
  AtomicFile file(path, replace);
  file.write(bytes);
  file.commit();
}

StudyTable read_study(const fs::path& program, const fs::path& path) {
  try {
    return read_any(program, path);
  } catch (const NoStudy& no) {
    throw Error({.file = path.string(), .found = no.found, .expected = kWanted});
  }
}

std::optional<StudyTable> read_study_if_one(const fs::path& program, const fs::path& path) {
  try {
    return read_any(program, path);
  } catch (const NoStudy&) {
    return std::nullopt;
  }
}

int study_child_main(int argc, char** argv) {
  if (argc != 3) return static_cast<int>(ExitCode::usage);
  confine();
  limit_cpu();
  const std::string file = argv[2];
  const bool heard = answer_with(file, kWanted, [&] { return write_frame(MessageKind::study, answer_of(file)); });
  return heard ? 0 : static_cast<int>(ExitCode::resource);
}

}  // namespace kvscope

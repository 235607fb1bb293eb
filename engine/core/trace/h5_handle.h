#pragma once
// HDF5's C API with owned ids and checked calls. Nothing of the trace format.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_schema.h"

namespace kvscope::trace {

/// A call that HDF5 refused. The public functions of this folder turn it into kvscope::Error with the file's name.
class H5Error : public std::runtime_error {
 public:
  enum class Teller : std::uint8_t { us, library, system };  // whose words the reason is
  H5Error(std::string action, std::string reason, Teller teller = Teller::us);
  const std::string& action() const { return action_; }  // "write heads/score"
  const std::string& reason() const { return reason_; }  // HDF5's innermost message, or what errno says
  /// For a file that could not be written: errno's words alone if the system refused, as the action says nothing then.
  Error of_file(std::string file, std::string hint) const;
  /// For a file that could not be read, which should have been a whole `kind`; `part` of it comes before the action. The
  /// library's words are of its own structures, and tell a person no more than that the file is damaged there.
  Error of_damage(std::string file, const std::string& kind, const std::string& part = "") const;

 private:
  std::string action_, reason_;
  Teller teller_;
};

/// Throws H5Error with the library's own innermost message.
/// If a system call failed, with the words of its errno.
[[noreturn]] void throw_h5(std::string_view action);

template <typename T>
T h5_check(T result, std::string_view action) {
  if (result < 0) throw_h5(action);
  return result;
}

/// Owns one id. Any kind: H5Idec_ref closes files, groups, datasets, spaces, types and property lists alike.
class H5Id {
 public:
  H5Id() = default;
  H5Id(hid_t id, std::string_view action) : id_(h5_check(id, action)) {}
  H5Id(H5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  H5Id& operator=(H5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~H5Id() { reset(); }
  operator hid_t() const { return id_; }
  void reset() {
    if (id_ >= 0) H5Idec_ref(std::exchange(id_, -1));
  }
  /// Gives up ownership without closing: after a failed write, closing is what damages the file.
  void leak() { id_ = -1; }

 private:
  hid_t id_ = -1;
};

/// The types as they stand in files; on this (little-endian) machine also the types in memory.
hid_t h5_type(Type type);

/// Scalar attributes of fixed length. Texts longer than 60,000 bytes do not fit into an attribute: H5Error.
void write_attribute(hid_t object, const char* name, std::string_view text);
void write_attribute(hid_t object, const char* name, const std::vector<std::string>& texts);
void write_attribute(hid_t object, const char* name, std::int64_t value);
/// Throw H5Error if it is missing or of another kind; vlen strings count as another kind.
std::string read_text_attribute(hid_t object, const char* name);
std::vector<std::string> read_texts_attribute(hid_t object, const char* name);
std::int64_t read_integer_attribute(hid_t object, const char* name);

/// Group creation without time stamps; datasets likewise through `dataset_creation()`.
H5Id create_group(hid_t parent, const char* path);
H5Id dataset_creation();
/// A scalar string dataset.
void write_text_dataset(hid_t parent, const char* path, std::string_view text);

/// The values of a dataset that is written once, of this shape.
H5Id write_dataset(hid_t parent, const char* name, Type type, const std::vector<hsize_t>& dims, const void* values);

/// A list of strings as a dataset of fixed-length ones.
void write_text_list(hid_t parent, const char* name, const std::vector<std::string>& texts, const char* meaning);
/// The inverse. Throws H5Error if it is anything else, or longer than that in either direction.
std::vector<std::string> read_text_list(hid_t dataset, const char* name, std::size_t max_bytes, std::int64_t max_n);

/// H5Fflush and fsync of the file's descriptor.
void flush_to_disk(hid_t file);

/// Where the file ends, as its first bytes say in each version of HDF5's superblock; nothing if they end before that.
std::optional<std::uint64_t> whole_size(std::string_view head);

/// File access for all files of ours: no locks (a trace may be read while it is written, see trace_layout.h), earliest
/// format, closing the file closes what is open in it.
H5Id file_access();

}  // namespace kvscope::trace

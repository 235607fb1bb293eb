#pragma once
// netCDF-4 files, which are HDF5 files with rules: every dimension is a dimension scale, every variable says which ones
// it has, and links and attributes keep their order. Written without the netCDF library, whose files say no more and which
// brings 38 shared libraries (docs/records/libraries.md).
//
// A dimension here always has a coordinate variable 0 ... n - 1 and is never unlimited. Numbers are little-endian,
// texts netCDF's strings; values that are missing are NaN, which _FillValue says of every real variable.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/trace/h5_handle.h"

namespace kvscope::trace {

/// A file in memory: what is in it goes to disk at once, by whoever takes bytes(). Methods throw H5Error.
class NetcdfFile {
 public:
  NetcdfFile();

  struct Variable {
    std::string name;
    std::vector<std::string> dimensions;  // outermost first; made before
    std::string long_name;                // what it is, one line
    std::string units;                    // "" of pure numbers
    /// Of codes: values and their names, both in the order of the map.
    std::map<std::int64_t, std::string> flags = {};
    std::string coordinates;  // names of auxiliary coordinates, spaces between
  };

  /// Of the whole file. Texts longer than an attribute can hold, 60,000 bytes, and empty ones are left out.
  void attribute(const char* name, std::string_view text);
  void attribute(const char* name, std::int64_t value);
  void attribute(const char* name, double value);
  void dimension(const std::string& name, std::int64_t length, const std::string& long_name);
  std::int64_t length(const std::string& dimension) const { return dimensions_.at(dimension).length; }

  /// As many values as the dimensions say (else std::invalid_argument).
  void add(const Variable& variable, std::span<const float> values);
  void add(const Variable& variable, std::span<const double> values);
  void add(const Variable& variable, std::span<const std::int32_t> values);
  void add(const Variable& variable, std::span<const std::uint8_t> values);
  void add(const Variable& variable, const std::vector<std::string>& texts);

  /// Closes the file. The same calls give the same bytes.
  std::string bytes();

 private:
  struct Use {
    hobj_ref_t variable;
    int place;  // of the dimension among the variable's
  };
  struct Dimension {
    std::int64_t length = 0;
    hobj_ref_t scale = 0;
    std::vector<Use> uses;
  };
  void add(const Variable& variable, hid_t type, std::size_t n_values, const void* values);
  void describe(hid_t dataset, const Variable& variable, hid_t type);
  void attach_scales(hid_t dataset, const Variable& variable);

  H5Id file_;
  std::map<std::string, Dimension> dimensions_;
};

}  // namespace kvscope::trace

#pragma once
// Which filters of HDF5 a file of ours may use, in one place for traces and studies.

#include <hdf5.h>

#include <string>

namespace kvscope::trace {

/// "lzf (filter 32000)" of the first filter in a dataset's creation list that this program does not read; empty if there
/// is none. Ours use deflate, shuffle and fletcher32; all others are left to plug-ins, which are never loaded.
std::string foreign_filter(hid_t creation, const std::string& where);

inline constexpr char kOwnFilters[] = "deflate, shuffle or fletcher32";
inline constexpr char kRepack[] =
    "h5repack -f GZIP=4 IN OUT makes a copy that opens (with the filter's plug-in installed)";

}  // namespace kvscope::trace

#include "engine/core/trace/h5_filters.h"

#include <utility>

#include "engine/core/trace/h5_handle.h"

namespace kvscope::trace {
namespace {

/// Registered with the HDF Group, those of hdf5plugin, h5py and netCDF.
constexpr std::pair<int, const char*> kNames[] = {
    {4, "szip"},     {5, "nbit"},       {6, "scaleoffset"},   {305, "lzo"},          {307, "bzip2"},
    {32000, "lzf"},  {32001, "blosc"},  {32004, "lz4"},       {32008, "bitshuffle"}, {32013, "zfp"},
    {32015, "zstd"}, {32017, "sz"},     {32018, "fcidecomp"}, {32019, "jpeg"},       {32022, "granular bitround"},
    {32023, "sz3"},  {32026, "blosc2"}, {32028, "sperr"},     {32029, "htj2k"},
};

}  // namespace

std::string foreign_filter(hid_t creation, const std::string& where) {
  const int n = h5_check(H5Pget_nfilters(creation), "look at " + where);
  for (int i = 0; i < n; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t n_values = 0;
    char unused[1];
    const auto filter =
        h5_check(H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &n_values, nullptr, 0, unused, &config),
                 "look at " + where);
    if (filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_FLETCHER32) continue;
    for (const auto& [number, name] : kNames) {
      if (number == filter) return std::string(name) + " (filter " + std::to_string(filter) + ")";
    }
    return "filter " + std::to_string(filter);
  }
  return "";
}

}  // namespace kvscope::trace

#pragma once
// NAME_loss.csv: a row a logged step, out as soon as it is known.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kvscope::engine {

class LossCurve {
 public:
  /// Begins the file anew, or, with n_bytes > 0, goes on behind so many bytes of it and drops the rest. Throws Error: resource if it
  /// cannot be written, bad input if it is shorter.
  LossCurve(const std::filesystem::path& path, const std::vector<std::string>& columns, std::uint64_t n_bytes);
  /// One value a column, with 7 digits. Throws Error (resource).
  void add(const std::vector<double>& values);
  /// Of the file up to here.
  std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::uint64_t n_bytes_ = 0;
  std::ofstream file_;
};

}  // namespace kvscope::engine

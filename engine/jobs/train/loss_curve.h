#pragma once
// The numbers of a training run as a CSV file, one line a logged step, on disk as soon as it is known.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace kvscope::engine {

class LossCurve {
 public:
  /// Replaces the file and writes the header line. Throws Error (resource) if that fails.
  LossCurve(const std::filesystem::path& path, std::vector<std::string> columns);
  /// One value a column.
  void add(const std::vector<double>& values);
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  std::vector<std::string> columns_;
  std::ofstream file_;
};

}  // namespace kvscope::engine

#include "engine/jobs/train/loss_curve.h"

#include <cstdio>

#include "engine/core/support/error.h"

namespace kvscope::engine {

LossCurve::LossCurve(const std::filesystem::path& path, const std::vector<std::string>& columns, std::uint64_t n_bytes)
    : path_(path) {
  if (n_bytes > 0) {
    std::error_code problem;
    const auto size = std::filesystem::file_size(path, problem);
    if (problem || size < n_bytes) {
      throw Error({.file = path.string(),
                   .found = problem ? "the file is missing" : std::to_string(size) + " bytes",
                   .expected = "the " + std::to_string(n_bytes) + " bytes that the checkpoint recorded"});
    }
    std::filesystem::resize_file(path, n_bytes);
    file_.open(path, std::ios::app);
    n_bytes_ = n_bytes;
    return;
  }
  file_.open(path);
  std::string header;
  for (const std::string& column : columns) header += (header.empty() ? "" : ",") + column;
  write(header + "\n");
}

void LossCurve::add(const std::vector<double>& values) {
  std::string line;
  for (const double value : values) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.7g", line.empty() ? "" : ",", value);
    line += text;
  }
  write(line + "\n");
}

void LossCurve::write(const std::string& line) {
  if (!(file_ << line << std::flush)) {
    throw Error({.code = ExitCode::resource, .file = path_.string(), .found = "the file cannot be written"});
  }
  n_bytes_ += line.size();
}

}  // namespace kvscope::engine

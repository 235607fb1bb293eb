#include "engine/jobs/train/loss_curve.h"

#include <cstdio>

#include "engine/core/support/error.h"

namespace kvscope::engine {

LossCurve::LossCurve(const std::filesystem::path& path, std::vector<std::string> columns)
    : columns_(std::move(columns)), file_(path) {
  for (std::size_t i = 0; i < columns_.size(); ++i) file_ << (i == 0 ? "" : ",") << columns_[i];
  file_ << '\n' << std::flush;
  if (!file_) {
    throw Error({.code = ExitCode::resource, .file = path.string(), .found = "the file cannot be written"});
  }
}

void LossCurve::add(const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.7g", i == 0 ? "" : ",", values[i]);
    file_ << text;
  }
  file_ << '\n' << std::flush;
}

}  // namespace kvscope::engine

#include "engine/jobs/bench/bench_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

/// Infinite where a number is missing.
double greatest_difference(std::span<const float> found, std::span<const float> expected, double least) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0, greatest = least;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(found[i]) != std::isnan(expected[i])) return INFINITY;
    if (std::isnan(expected[i])) continue;
    difference = std::max(difference, std::abs(static_cast<double>(found[i]) - expected[i]));
    greatest = std::max(greatest, std::abs(static_cast<double>(expected[i])));
  }
  return greatest > 0 ? difference / greatest : difference;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

double check_close(std::span<const float> found, std::span<const float> expected, const LoadedModel& model,
                   const std::string& bench, const std::string& where, double least) {
  const double error = greatest_difference(found, expected, least),
               allowed = model.info().dtype == "float32" ? 1e-3 : 0.1;
  if (error <= allowed) return error;
  throw Error(
      {.code = ExitCode::internal,
       .file = "bench " + bench,
       .where = where,
       .found = "a result that differs from its definition by " + short_number(error) + " of the greatest value",
       .expected = "at most " + short_number(allowed)});
}

}  // namespace kvscope::engine

#pragma once
// How repeated measurements are told: the median and how far they lie apart.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace kvscope::engine {

struct Spread {
  double median = 0, min = 0, max = 0;
};
/// Of at least one value.
Spread spread_of(std::vector<double> values);
/// {"median", "min", "max"}
nlohmann::json to_json(const Spread& spread);

/// Seconds of `body`, which must have waited for the device when it returns: after `n_warm_up` calls, the spread of
/// n_repeats.
Spread time_repeats(int n_warm_up, int n_repeats, const std::function<void()>& body);

}  // namespace kvscope::engine

#pragma once
// What a sweep's points say together: which are worth their cost, where more cost stops paying, what a policy would reach at a
// cost that it was not measured at, and how sure a mean of few values is.

#include <optional>
#include <span>
#include <vector>

namespace kvscope {

/// Which way is better in one column.
enum class Aim { smaller, larger };

/// Whether each point is on the Pareto front of the two columns: no other is at least as good in both and better in one.
/// Points that are equal in both are on it together. One with a NaN is not, and keeps no other away.
std::vector<bool> pareto_front(std::span<const double> cost, std::span<const double> value, Aim cost_aim,
                               Aim value_aim);

/// The front's knee: with both columns scaled to [0, 1] over the front's points (0 is best), the one farthest below the chord
/// from the point of the least cost to that of the best value,
///
///     distance = (1 - cost - value) / sqrt(2)
///
/// Of equally far ones the cheapest. Nothing if none is below the chord: fewer than three different points on the front, or a
/// front that bulges outwards.
std::optional<std::size_t> pareto_knee(std::span<const double> cost, std::span<const double> value, Aim cost_aim,
                                       Aim value_aim);

/// The value at cost `at`, on the straight line between the neighbouring points by cost; points of one cost count as one, with
/// the mean of their values. NaN outside the points' range: nothing is extrapolated. SP-KV Table 2 compares policies so, at
/// the densities that another policy happens to have.
double value_at_cost(std::span<const double> cost, std::span<const double> value, double at);

}  // namespace kvscope

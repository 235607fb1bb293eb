#pragma once
// The activations, in double.

#include <cmath>

namespace kvscope::kernels::reference {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

}  // namespace kvscope::kernels::reference

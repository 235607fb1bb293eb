#pragma once

namespace kvscope {

/// The 0.975 quantile of Student's t, mean +- t * standard error being its 95 % interval: within 2e-4 of it from one degree
/// of freedom on, NaN below.
double student_t_975(int degrees_of_freedom);

}  // namespace kvscope

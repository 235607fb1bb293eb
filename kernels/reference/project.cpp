#include "kernels/project.h"

#include <cmath>
#include <vector>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

/// n of one token, rounded to dtype.
std::vector<double> input(const ProjectArgs& args, std::int64_t token) {
  const std::int64_t first = token * args.dim;
  std::vector<double> n(args.dim);
  if (!args.norm_weight) {
    for (int c = 0; c < args.dim; ++c) n[c] = load(args.x, first + c, args.dtype);
    return n;
  }
  double sum = 0;
  for (int c = 0; c < args.dim; ++c) sum += std::pow(load(args.x, first + c, DType::f32), 2);
  const double inverse = 1 / std::sqrt(sum / args.dim + args.eps);
  for (int c = 0; c < args.dim; ++c) {
    const double x = load(args.x, first + c, DType::f32);
    n[c] = rounded(static_cast<float>(x * inverse * (args.norm_offset + load(args.norm_weight, c, args.dtype))),
                   args.dtype);
  }
  return n;
}

double product(const ProjectArgs& args, std::int64_t row, const std::vector<double>& n) {
  double sum = 0;
  for (int c = 0; c < args.dim; ++c) sum += load(args.weight, row * args.dim + c, args.dtype) * n[c];
  return sum;
}

void finish(const ProjectArgs& args, std::int64_t at, std::int64_t row, const std::vector<double>& n) {
  const double y = product(args, row, n), biased = y + (args.bias ? load(args.bias, row, args.dtype) : 0);
  auto* floats = static_cast<float*>(args.out);
  switch (args.epilogue) {
    case Epilogue::store:
      return store(args.out, at, args.dtype, biased);
    case Epilogue::add:
      return store(floats, at, DType::f32, floats[at] + biased);
    case Epilogue::swiglu:
      return store(args.out, at, args.dtype, y / (1 + std::exp(-y)) * product(args, row + args.n_rows / 2, n));
    case Epilogue::geglu:
      return store(args.out, at, args.dtype, gelu_tanh(y) * product(args, row + args.n_rows / 2, n));
    case Epilogue::logits:
      return store(floats, at, DType::f32, biased);
    case Epilogue::silu:
      return store(args.out, at, args.dtype, silu(biased));
    case Epilogue::sigmoid:
      return store(floats, at, DType::f32, 1 / (1 + std::exp(-biased)));
    case Epilogue::gelu:
      return store(args.out, at, args.dtype, gelu(biased));
  }
}

}  // namespace

void project(const ProjectArgs& args) {
  const std::int64_t n_out = is_gated(args.epilogue) ? args.n_rows / 2 : args.n_rows;
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    const std::vector<double> n = input(args, token);
    for (std::int64_t row = 0; row < n_out; ++row) finish(args, token * n_out + row, row, n);
  }
}

}  // namespace kvscope::kernels::reference

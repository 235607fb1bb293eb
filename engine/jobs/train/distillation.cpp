#include "engine/jobs/train/distillation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>

namespace kvscope::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Distillation : public torch::autograd::Function<Distillation> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& student, const at::Tensor& teacher,
                            const at::Tensor& output, std::int64_t top, std::int64_t chunk) {
    const auto n = student.size(0);
    const auto type = at::promote_types(student.scalar_type(), at::kFloat);
    at::Tensor gradient = at::empty_like(student);
    at::Tensor sum = at::zeros({}, student.options().dtype(type));
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      const auto rows = std::min(chunk, n - begin);
      const auto logits = [&](const at::Tensor& hidden) {
        return at::matmul(hidden.narrow(0, begin, rows), output.t());
      };
      const at::Tensor of_student = at::log_softmax(logits(student), -1, type);
      at::Tensor log_p = logits(teacher), index;
      if (top > 0 && top < output.size(0)) std::tie(log_p, index) = log_p.topk(top, -1);
      log_p = at::log_softmax(log_p, -1, type);
      const at::Tensor p = log_p.exp();
      sum.add_((p * (log_p - (index.defined() ? of_student.gather(-1, index) : of_student))).sum());
      // gradient of the student's logits: (softmax - teacher's p) / n
      at::Tensor excess = of_student.exp();
      index.defined() ? excess.scatter_add_(-1, index, -p) : excess.sub_(p);
      gradient.narrow(0, begin, rows)
          .copy_(at::matmul(excess.div_(static_cast<double>(n)).to(student.scalar_type()), output));
    }
    context->save_for_backward({gradient});
    return sum / static_cast<double>(n);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    return {gradient * gradients[0].to(gradient.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor distillation(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& output,
                        std::int64_t top, std::int64_t chunk) {
  return Distillation::apply(student, teacher.detach(), output.detach(), top, chunk);
}

}  // namespace kvscope::engine

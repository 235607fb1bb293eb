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
                            const at::Tensor& output, const at::Tensor& teacher_output, std::int64_t top,
                            std::int64_t chunk) {
    const auto n = student.size(0);
    const auto type = at::promote_types(student.scalar_type(), at::kFloat);
    at::Tensor gradient = at::empty_like(student), of_output;
    if (output.requires_grad()) of_output = at::zeros_like(output, output.options().dtype(type));
    at::Tensor sum = at::zeros({}, student.options().dtype(type));
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      const auto rows = std::min(chunk, n - begin);
      const at::Tensor h = student.narrow(0, begin, rows);
      const at::Tensor of_student = at::log_softmax(at::matmul(h, output.t()), -1, type);
      at::Tensor log_p = at::matmul(teacher.narrow(0, begin, rows), teacher_output.t()), index;
      if (top > 0 && top < output.size(0)) std::tie(log_p, index) = log_p.topk(top, -1);
      log_p = at::log_softmax(log_p, -1, type);
      const at::Tensor p = log_p.exp();
      sum.add_((p * (log_p - (index.defined() ? of_student.gather(-1, index) : of_student))).sum());
      // gradient of the student's logits: (softmax - teacher's p) / n
      at::Tensor excess = of_student.exp();
      index.defined() ? excess.scatter_add_(-1, index, -p) : excess.sub_(p);
      const at::Tensor of_logits = excess.div_(static_cast<double>(n)).to(student.scalar_type());
      gradient.narrow(0, begin, rows).copy_(at::matmul(of_logits, output));
      if (of_output.defined()) of_output.add_(at::matmul(of_logits.t(), h));
    }
    context->save_for_backward({gradient, of_output.defined() ? of_output.to(output.scalar_type()) : of_output});
    return sum / static_cast<double>(n);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto scaled = [&](const at::Tensor& of) {
      return of.defined() ? of * gradients[0].to(of.scalar_type()) : at::Tensor();
    };
    return {scaled(saved[0]), at::Tensor(), scaled(saved[1]), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor distillation(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& output,
                        std::int64_t top, std::int64_t chunk, const at::Tensor& teacher_output) {
  return Distillation::apply(student, teacher.detach(), output,
                             (teacher_output.defined() ? teacher_output : output).detach(), top, chunk);
}

}  // namespace kvscope::engine

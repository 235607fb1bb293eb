#include "engine/jobs/train/weighted_cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kvscope::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& embedding,
                               const at::Tensor& target, const at::Tensor& weight, std::int64_t chunk) {
    const auto n = hidden.size(0);
    at::Tensor nll = at::empty({n}, weight.options());
    at::Tensor hidden_gradient = at::empty_like(hidden);
    at::Tensor embedding_gradient = at::zeros_like(embedding, embedding.options().dtype(at::kFloat));
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      const auto rows = std::min(chunk, n - begin);
      const at::Tensor h = hidden.narrow(0, begin, rows);
      const at::Tensor t = target.narrow(0, begin, rows).unsqueeze(1);
      at::Tensor logits = at::matmul(h, embedding.t());  // [rows, V]
      at::Tensor p = at::log_softmax(logits, -1, at::kFloat);
      nll.narrow(0, begin, rows).copy_(p.gather(1, t).squeeze(1).neg_());
      // gradient of the logits: weight * (softmax - one_hot)
      p.exp_().scatter_add_(1, t, at::full({rows, 1}, -1, p.options()));
      at::mul_out(logits, p, weight.narrow(0, begin, rows).unsqueeze(1));
      hidden_gradient.narrow(0, begin, rows).copy_(at::matmul(logits, embedding));
      embedding_gradient.add_(at::matmul(logits.t(), h));
    }
    at::Tensor loss = at::dot(nll, weight);
    context->save_for_backward({hidden_gradient, embedding_gradient.to(embedding.scalar_type())});
    context->mark_non_differentiable({nll});
    return {loss, nll};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor scale = gradients[0];
    return {saved[0] * scale.to(saved[0].scalar_type()), saved[1] * scale.to(saved[1].scalar_type()), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

WeightedCrossEntropy weighted_cross_entropy(const at::Tensor& hidden, const at::Tensor& embedding,
                                            const at::Tensor& target, const at::Tensor& weight, std::int64_t chunk) {
  auto result = CrossEntropy::apply(hidden, embedding, target, weight, chunk);
  return {result[0], result[1]};
}

}  // namespace kvscope::engine

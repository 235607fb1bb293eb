#pragma once
// Knowledge distillation through the vocabulary, without a matrix of logits that is ever whole.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvscope::engine {

/// Mean over n tokens of KL(softmax(teacher W^T) || softmax(student W^T)), a scalar in float32. With top > 0 the teacher's distribution is
/// that of its `top` likeliest tokens, divided by their sum; the student's is of all. student and teacher [n, H]
/// are final hidden states, output [V, H] is W; teacher_output, if given, is the teacher's. Gradients go to `student`, and
/// to `output` if it wants one. Goes through the tokens in chunks, and makes the gradient on the way: the largest
/// temporaries are [chunk, V].
at::Tensor distillation(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& output,
                        std::int64_t top = 0, std::int64_t chunk = 2048, const at::Tensor& teacher_output = {});

}  // namespace kvscope::engine

#pragma once
// A study of three points, the dense one among them.

#include "engine/core/study/table/study_table.h"

namespace kvscope::test {

inline StudyTable small_study(double first = 0.5) {
  return {.kind = "sweep",
          .request = R"({"cost":"density","model":"small","texts":["t.txt"],"pieces":2})",
          .facts = R"({"groups":{}})",
          .columns = {
              {.name = "policy", .units = "", .meaning = "", .is_text = true, .texts = {"full", "a:tau=1", "a:tau=2"}},
              {.name = "item", .units = "", .meaning = "", .is_text = true, .texts = {"t.txt", "t.txt", "t.txt"}},
              {.name = "is_dense", .units = "", .meaning = "", .numbers = {1, 0, 0}},
              {.name = "chunk", .units = "tokens", .meaning = "", .numbers = {16, 16, 16}},
              {.name = "density", .units = "", .meaning = "kept", .numbers = {1, first, 0.25}},
              {.name = "nll_difference", .units = "nats/token", .meaning = "", .numbers = {0, 0.1, 0.3}},
              {.name = "on_front", .units = "", .meaning = "1: no other row is better", .numbers = {0, 1, 1}}}};
}

}  // namespace kvscope::test

#include "engine/core/study/measure/oracle_label.h"

#include "engine/core/support/text.h"

namespace kvscope {
namespace {

std::string number_of_tokens(const OracleMean& mean) {
  if (mean.n == 0) return "–";
  return mean.one_capacity ? number_text(mean.capacity) : fixed_text(mean.capacity, 1);
}

std::string name_of(OracleOf whose, bool several) {
  return whose == OracleOf::shared ? "shared oracle" : several ? "own oracles" : "own oracle";
}

}  // namespace

std::string k_text(const OracleMean& mean) {
  return (mean.n > 0 && !mean.one_capacity ? "mean k = " : "k = ") + number_of_tokens(mean);
}

std::string oracle_label(OracleOf whose, const OracleMean& mean) { return name_of(whose, false) + ", " + k_text(mean); }

std::string oracle_label(OracleOf whose, const OracleMean& a, const OracleMean& b) {
  const std::string of_a = number_of_tokens(a), of_b = number_of_tokens(b);
  const bool mean = (a.n > 0 && !a.one_capacity) || (b.n > 0 && !b.one_capacity);
  return name_of(whose, true) + (mean ? ", mean k = " : ", k = ") + of_a + (of_a == of_b ? "" : " | " + of_b);
}

std::string recall_label(OracleOf whose, const OracleMean& mean) {
  return "recall (" + oracle_label(whose, mean) + ")";
}

}  // namespace kvscope

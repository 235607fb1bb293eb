#include "views/widgets/run_numbers.h"

#include <string>

#include "engine/core/study/measure/oracle_label.h"
#include "views/figure/figure_builder.h"
#include "views/widgets/chrome.h"
#include "views/widgets/inspector_rows.h"

namespace kvscope::views {
namespace {

bool has_oracle(const ShownRun* shown) {
  return shown != nullptr && !shown->run->future_mass.empty() && shown->run->status != RunStatus::running;
}

std::string number(double value, std::int64_t n) { return n == 0 ? "–" : format_number(value, 3); }

}  // namespace

void RunNumbers::draw(const ShownRun& a, const ShownRun* b) {
  if (!has_oracle(&a) && !has_oracle(b)) return;
  const auto means = debounced_.of({RunKey(&a), RunKey(b)}, [of_a = a.run, of_b = b != nullptr ? b->run : nullptr] {
    return Means{mean_of(Oracle(*of_a)), of_b != nullptr ? mean_of(Oracle(*of_b)) : OracleMean()};
  });
  if (!means) return text_in(services_.theme->palette.muted, "Computing ...");
  {
    const FontScope bold(services_.theme->fonts.bold);
    wrapped_text_in(services_.theme->palette.text, b != nullptr ? "Whole runs" : "Whole run");
  }
  InspectorRows rows(services_, "run", b != nullptr);
  if (!rows) return;
  const OracleMean &of_a = means->a, &of_b = means->b;
  const std::string oracle = b != nullptr ? oracle_label(OracleOf::own, of_a, of_b) : oracle_label(OracleOf::own, of_a);
  const auto add = [&](const std::string& name, const char* id, double value_a, double value_b, const char* hint) {
    rows.add(name, id, number(value_a, of_a.n), b != nullptr ? std::optional(number(value_b, of_b.n)) : std::nullopt);
    hint_of(services_, hint);
  };
  const std::string definition = std::string(kRecallDefinition) + ". " + std::to_string(of_a.n) +
                                 (b != nullptr ? " | " + std::to_string(of_b.n) : "") + " pairs.";
  add("recall (" + oracle + ")", "run recall", of_a.recall, of_b.recall, definition.c_str());
  add("chance", "run chance", of_a.chance, of_b.chance,
      "Recall of a random choice of the same size, over the same pairs");
  add("recall above chance", "run above chance", of_a.above_chance(), of_b.above_chance(),
      "(recall - chance) / (1 - chance): 0 is a random choice, 1 is the oracle's choice");
}

}  // namespace kvscope::views

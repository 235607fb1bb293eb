#include "engine/core/study/table/training_log.h"

#include <algorithm>
#include <array>
#include <string>

namespace kvscope {
namespace {

struct Known {
  std::string_view name, units, meaning;
};
constexpr std::array kEvery = {
    Known{"step", "", "optimizer steps done"},
    Known{"tokens", "", "tokens trained on up to this step"},
    Known{"learning_rate", "", "learning rate of the step"},
    Known{"tokens_per_s", "tokens/s", "since the row before"},
    Known{"seconds", "s", "of training, including those before a --resume"},
};
constexpr std::array kSome = {
    Known{"loss_boundary", "", "KVpop eq. 7, mean since the row before"},
    Known{"gate_mean", "", "mean of the gates in the step"},
    Known{"gate_open", "", "share of tokens whose gate keeps them, over all heads, in the step"},
};

StudyColumn* number_column(StudyTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.columns, name, &StudyColumn::name);
  return found == table.columns.end() || found->is_text ? nullptr : &*found;
}

void describe(StudyTable& table, const Known& known) {
  StudyColumn* column = number_column(table, known.name);
  if (column != nullptr) column->units = known.units, column->meaning = known.meaning;
}

}  // namespace

void name_training_log(StudyTable& table) {
  if (!std::ranges::all_of(kEvery, [&](const Known& known) { return number_column(table, known.name) != nullptr; }))
    return;
  table.kind = kTrainingLog;
  for (const Known& known : kEvery) describe(table, known);
  for (const Known& known : kSome) describe(table, known);
  // open_LAYER_HEAD
  for (StudyColumn& column : table.columns) {
    if (column.name.starts_with("open_") && !column.is_text) column.meaning = "share of tokens that this head keeps";
  }
}

int same_step(const StudyTable& before, int row, const StudyTable& now) {
  const StudyColumn *step = before.column("step"), *source = before.column("source");
  const StudyColumn *new_step = now.column("step"), *new_source = now.column("source");
  if (!step || !source || !new_step || !new_source) return -1;
  const auto at = static_cast<std::size_t>(row);
  for (std::size_t i = 0; i < now.n_points(); ++i) {
    if (new_step->numbers[i] == step->numbers[at] && new_source->texts[i] == source->texts[at])
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace kvscope

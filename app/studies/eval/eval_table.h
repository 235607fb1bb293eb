#pragma once
// The table of an evaluation in the forms in which people use it.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/core/study/measure/evaluation.h"

namespace kvscope::app {

enum class TableFormat { text, json, latex };

/// "text", "json", "latex"; throws Error (usage) for anything else.
TableFormat table_format(const std::string& name);

///     text    columns of equal width; what was not measured for any row has no column
///     latex   the same columns as a tabular of booktabs, lines between items
///     json    one object on one line: facts, and rows with null for what was not measured
std::string eval_table(const EvalFacts& facts, std::span<const EvalRow> rows, TableFormat format);

/// facts, and rows with null for what was not measured.
nlohmann::ordered_json eval_json(const EvalFacts& facts, std::span<const EvalRow> rows);
/// A heading and rows as a tabular of booktabs: two columns of names, numbers, and lines where the first column changes.
std::string latex_tabular(const std::vector<std::vector<std::string>>& cells);
/// One object on one line.
std::string json_line(const nlohmann::ordered_json& object);

/// As LaTeX prints it as it is.
std::string latex_text(std::string_view text);

}  // namespace kvscope::app

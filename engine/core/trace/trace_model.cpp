#include "engine/core/trace/trace_model.h"

#include "engine/core/record/run_fields.h"
#include "engine/core/support/refuse.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope {

namespace {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// Names and values of the fields, as a person would say them.
NamedTexts shown(const ModelInfo& model) {
  NamedTexts fields;
  visit_fields(model, [&]<typename T>(std::string_view name, const T& value, auto) {
    if constexpr (std::is_same_v<T, std::string>) {
      fields.emplace_back(name, value);
    } else {
      fields.emplace_back(name, std::to_string(value));
    }
  });
  return fields;
}

}  // namespace

std::optional<TraceDifference> model_difference(const ModelInfo& a, const ModelInfo& b) {
  const NamedTexts of_a = shown(a), of_b = shown(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const auto& [name, value] = of_a[i];
    if (name != "name" && name != "path" && value != of_b[i].second) return {{name, value, of_b[i].second}};
  }
  return std::nullopt;
}

}  // namespace kvscope

namespace kvscope::trace {

void write_model(hid_t file, const ModelInfo& model) {
  H5Id group = create_group(file, "model");
  visit_fields(model, [&](const char* name, const auto& value, auto) { write_attribute(group, name, value); });
}

ModelInfo read_model(hid_t group, const std::string& file) {
  ModelInfo model;
  visit_fields(model, [&]<typename T>(const char* name, T& value, auto) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = read_text_attribute(group, name);
    } else {
      const auto number = read_integer_attribute(group, name);
      value = static_cast<T>(number);
      if (value != number)
        throw Error({.file = file, .where = name, .found = std::to_string(number), .expected = "0 to 2147483647"});
    }
  });
  check_model(model, file);
  return model;
}

void check_model(const ModelInfo& model, const std::string& file) {
  visit_fields(model, [&]<typename T, typename Range>(const char* name, const T& value, Range range) {
    if constexpr (std::is_same_v<Range, FieldRange>) {
      const auto min = static_cast<std::int64_t>(range.min), max = static_cast<std::int64_t>(range.max);
      if (value >= min && value <= max) return;
      refuse(file, std::string("/model ") + name, std::to_string(value),
             std::to_string(min) + " to " + std::to_string(max));
    }
  });
}

bool same_model(const ModelInfo& a, const ModelInfo& b) {
  return a.name == b.name && a.path == b.path && !model_difference(a, b);
}

}  // namespace kvscope::trace

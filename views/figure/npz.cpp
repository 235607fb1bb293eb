#include "views/figure/npz.h"

#include "engine/core/study/npz.h"

namespace kvscope::views {
namespace {

void add(NpzWriter& writer, const std::string& name, const std::vector<std::string>& texts) { writer.add(name, texts); }
template <typename T>
void add(NpzWriter& writer, const std::string& name, const std::vector<T>& values) {
  const std::int64_t n = static_cast<std::int64_t>(values.size());
  writer.add(name, std::span(&n, 1), std::span<const T>(values));
}

}  // namespace

std::string to_npz(const FigureData& data) {
  std::string zip;
  NpzWriter writer([&](std::string_view bytes) { zip += bytes; });
  for (const FigureColumn& column : data.columns)
    std::visit([&](const auto& values) { add(writer, column.name, values); }, column.values);
  writer.finish();
  return zip;
}

}  // namespace kvscope::views

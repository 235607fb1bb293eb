#include "engine/core/trace/study_content.h"

#include "engine/core/support/hash.h"

namespace kvscope::trace {

namespace {

void put_numbers(MessageWriter& out, const std::vector<double>& numbers) {
  out.put(std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)));
}

std::vector<double> get_numbers(MessageReader& in) {
  const std::string_view bytes = in.text();
  if (bytes.size() % sizeof(double) != 0) throw BadMessage{};
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

void put_texts(MessageWriter& out, const std::vector<std::string>& texts) {
  out.put(static_cast<std::uint64_t>(texts.size()));
  for (const std::string& text : texts) out.put(text);
}

/// No reserve(): the number is the child's word.
std::vector<std::string> get_texts(MessageReader& in) {
  std::vector<std::string> texts;
  for (auto n = in.get<std::uint64_t>(); n > 0; --n) texts.emplace_back(in.text());
  return texts;
}

}  // namespace

void put_study(MessageWriter& out, const StudyTable& table) {
  for (const auto* text : {&table.kind, &table.request, &table.facts}) out.put(*text);
  out.put(static_cast<std::uint64_t>(table.columns.size()));
  for (const StudyColumn& column : table.columns) {
    for (const auto* text : {&column.name, &column.units, &column.meaning}) out.put(*text);
    out.put(static_cast<std::uint8_t>(column.is_text));
    put_numbers(out, column.numbers);
    put_texts(out, column.texts);
  }
  out.put(static_cast<std::uint64_t>(table.arrays.size()));
  for (const StudyArray& array : table.arrays) {
    for (const auto* text : {&array.name, &array.units, &array.meaning}) out.put(*text);
    put_texts(out, array.axes);
    out.put(static_cast<std::uint64_t>(array.shape.size()));
    for (const std::int64_t length : array.shape) out.put(length);
    put_numbers(out, array.values);
  }
}

StudyTable get_study(MessageReader& in) {
  StudyTable table;
  for (auto* text : {&table.kind, &table.request, &table.facts}) *text = in.text();
  for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
    StudyColumn& column = table.columns.emplace_back();
    for (auto* text : {&column.name, &column.units, &column.meaning}) *text = in.text();
    column.is_text = in.get<std::uint8_t>() != 0;
    column.numbers = get_numbers(in);
    column.texts = get_texts(in);
  }
  for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
    StudyArray& array = table.arrays.emplace_back();
    for (auto* text : {&array.name, &array.units, &array.meaning}) *text = in.text();
    array.axes = get_texts(in);
    for (auto axes = in.get<std::uint64_t>(); axes > 0; --axes) array.shape.push_back(in.get<std::int64_t>());
    array.values = get_numbers(in);
  }
  if (!in.at_end()) throw BadMessage{};
  return table;
}

std::uint64_t study_checksum(const StudyTable& table) {
  MessageWriter out;
  put_study(out, table);
  return fnv1a64(out.bytes());
}

}  // namespace kvscope::trace

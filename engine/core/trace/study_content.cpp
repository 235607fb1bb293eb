#include "engine/core/trace/study_content.h"

#include "engine/core/support/hash.h"

namespace kvscope::trace {

namespace {

template <typename T>
void put_numbers(MessageWriter& out, const std::vector<T>& numbers) {
  out.put(std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)));
}

template <typename T>
std::vector<T> get_numbers(MessageReader& in) {
  const std::string_view bytes = in.text();
  if (bytes.size() % sizeof(T) != 0) throw BadMessage{};
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Added to the number of an array's axes. Arrays of float64 are as they were before there were others: files have checksums of it.
constexpr std::uint64_t kOfFloat32 = std::uint64_t{1} << 32;

void put_values(MessageWriter& out, const StudyArray& array) {
  if (array.is_float32)
    put_numbers(out, std::vector<float>(array.values.begin(), array.values.end()));
  else
    put_numbers(out, array.values);
}

std::vector<double> get_values(MessageReader& in, bool is_float32) {
  if (!is_float32) return get_numbers<double>(in);
  const std::vector<float> values = get_numbers<float>(in);
  return {values.begin(), values.end()};
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
    out.put(array.shape.size() + (array.is_float32 ? kOfFloat32 : 0));
    for (const std::int64_t length : array.shape) out.put(length);
    put_values(out, array);
  }
}

StudyTable get_study(MessageReader& in) {
  StudyTable table;
  for (auto* text : {&table.kind, &table.request, &table.facts}) *text = in.text();
  for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
    StudyColumn& column = table.columns.emplace_back();
    for (auto* text : {&column.name, &column.units, &column.meaning}) *text = in.text();
    column.is_text = in.get<std::uint8_t>() != 0;
    column.numbers = get_numbers<double>(in);
    column.texts = get_texts(in);
  }
  for (auto n = in.get<std::uint64_t>(); n > 0; --n) {
    StudyArray& array = table.arrays.emplace_back();
    for (auto* text : {&array.name, &array.units, &array.meaning}) *text = in.text();
    array.axes = get_texts(in);
    auto axes = in.get<std::uint64_t>();
    array.is_float32 = (axes & kOfFloat32) != 0;
    for (axes &= kOfFloat32 - 1; axes > 0; --axes) array.shape.push_back(in.get<std::int64_t>());
    array.values = get_values(in, array.is_float32);
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

#pragma once
// NumPy archives: arrays of any rank, read by numpy.load().

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// A ZIP of .npy files, stored, with fixed dates, so that the same arrays give the same bytes. Array after array goes
/// to `sink`; finish() writes the directory. Throws Error (resource) beyond 4 GiB or 65,535 arrays, where ZIP ends.
class NpzWriter {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  explicit NpzWriter(Sink sink) : sink_(std::move(sink)) {}

  /// Row-major; as many values as the shape says (else std::invalid_argument).
  void add(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values);
  void add(const std::string& name, std::span<const std::int64_t> shape, std::span<const double> values);
  void add(const std::string& name, std::span<const std::int64_t> shape, std::span<const std::int32_t> values);
  void add(const std::string& name, std::span<const std::int64_t> shape, std::span<const std::int64_t> values);
  /// One dimension of fixed-width unicode; bytes that are not UTF-8 become U+FFFD.
  void add(const std::string& name, std::span<const std::string> texts);
  void finish();

 private:
  void add_raw(const std::string& name, const std::string& type, std::span<const std::int64_t> shape,
               std::string_view bytes, std::size_t size_of_value);

  Sink sink_;
  std::string directory_;
  std::uint64_t written_ = 0;
  std::uint32_t n_ = 0;
};

}  // namespace kvscope

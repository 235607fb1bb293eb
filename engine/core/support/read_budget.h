#pragma once
// What reading a stranger's bytes may cost, whatever their format.

#include <cstddef>
#include <string>

namespace kvscope {

/// A tree of JSON costs some hundred bytes of memory an element, also where an element is one byte of the file: so its
/// elements are counted beside its bytes.
struct ReadLimits {
  std::size_t max_bytes = 1u << 20;     // config 1 MiB, index and session 16 MiB, tokenizer 64 MiB
  int max_depth = 64;                   // 8 for a safetensors header, 32 for a message
  std::size_t max_elements = 1u << 20;  // values and keys
  std::size_t max_number = 1024;        // characters of one number, which a parser copies and converts several times
};

/// Counts while a reader walks. `refuse(found, expected)` throws the reader's Error, with its place in the file.
class ReadBudget {
 public:
  explicit ReadBudget(const ReadLimits& limits) : limits_(limits) {}

  template <typename Refuse>
  void add_bytes(std::size_t n, const Refuse& refuse) {
    if (n > limits_.max_bytes - bytes_) {
      refuse("more than " + std::to_string(limits_.max_bytes) + " bytes", "");
    }
    bytes_ += n;
  }
  template <typename Refuse>
  void add_element(const Refuse& refuse) {
    if (++elements_ > limits_.max_elements) {
      refuse("more than " + std::to_string(limits_.max_elements) + " values", "");
    }
  }
  template <typename Refuse>
  void enter(const Refuse& refuse) {
    if (++depth_ > limits_.max_depth) {
      refuse("nested deeper than " + std::to_string(limits_.max_depth) + " levels", "");
    }
  }
  void leave() { --depth_; }

 private:
  ReadLimits limits_;
  std::size_t bytes_ = 0, elements_ = 0;
  int depth_ = 0;
};

}  // namespace kvscope

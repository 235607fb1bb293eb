#include "engine/core/files/gate/gate_shapes.h"

#include <sstream>
#include <string_view>
#include <utility>

#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::string_view kLetters = "LHDFMK";
constexpr std::int64_t kMaxAxis = 1 << 20;  // wider than any; small enough that no product overflows
constexpr std::int64_t kMaxElements = 1 << 30;

/// One axis: number * letters / divisor.
struct Axis {
  std::int64_t number = 1, divisor = 1;
  std::string letters;
};

std::vector<Axis> parse(const std::string& shape) {
  std::vector<Axis> axes;
  std::istringstream words(shape);
  for (std::string word; words >> word;) {
    Axis axis;
    std::size_t at = 0;
    if (word[0] >= '0' && word[0] <= '9') axis.number = std::stoll(word, &at);
    for (; at < word.size() && word[at] != '/'; ++at) axis.letters += word[at];
    if (at < word.size()) axis.divisor = std::stoll(word.substr(at + 1));
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// The mLSTM's tensors as a variant has them.
void change(std::vector<GateTensorSpec>& specs, const MlstmVariant& variant) {
  for (GateTensorSpec& spec : specs) {
    const std::string_view name = spec.name;
    if (variant.feature_map == FeatureMap::softmax && (name == "wq" || name == "wk")) spec.shape = "L H 2D D";
    if (!variant.skip && name == "out") spec.shape = "L H D";
  }
  if (variant.cached_values)
    std::erase_if(specs, [](const GateTensorSpec& spec) { return std::string_view(spec.name) == "wv"; });
  if (variant.head_norm) specs.push_back({"norm", "L H D"});
}

}  // namespace

std::vector<GateTensorSpec> gate_tensor_specs(const GateConfig& config) {
  const GateKindInfo& kind = info_of(config.kind);
  const bool linear = kind.hidden == GateKindInfo::Hidden::optional && config.n_hidden == 0;
  const auto tensors = linear ? kind.linear : config.kernel > 1 ? kind.convolved : kind.tensors;
  std::vector<GateTensorSpec> specs(tensors.begin(), tensors.end());
  if (config.kind == GateKind::kvpop_mlstm) change(specs, config.mlstm);
  return specs;
}

std::string layer_shape(const GateTensorSpec& spec) { return std::string(spec.shape).substr(2); }

std::string show_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > 8 ? ", ...]" : "]");
}

GateSizes::GateSizes(const GateDims& known, int n_hidden, int kernel)
    : values_{known.n_layers, known.n_kv_heads, known.head_dim, known.hidden_size, n_hidden, kernel} {}

std::int64_t GateSizes::value(char letter) const { return values_[kLetters.find(letter)]; }
std::int64_t& GateSizes::value(char letter) { return values_[kLetters.find(letter)]; }

GateDims GateSizes::dims() const { return {value('L'), value('H'), value('D'), value('F')}; }

std::vector<std::int64_t> GateSizes::shape(const std::string& letters) const {
  std::vector<std::int64_t> out;
  for (const Axis& axis : parse(letters)) {
    std::int64_t size = axis.number;
    for (const char letter : axis.letters) size *= value(letter);
    out.push_back(size / axis.divisor);
  }
  return out;
}

std::string GateSizes::show(const std::string& letters) const {
  std::string text;
  for (const Axis& axis : parse(letters)) {
    std::int64_t size = axis.number;
    std::string unknown;
    for (const char letter : axis.letters) {
      if (value(letter) > 0) {
        size *= value(letter);
      } else {
        unknown += letter;
      }
    }
    text += text.empty() ? "[" : ", ";
    if (unknown.empty()) {
      text += std::to_string(size / axis.divisor);
    } else {
      text += (size == 1 ? "" : std::to_string(size)) + unknown;
      if (axis.divisor > 1) text.append("/").append(std::to_string(axis.divisor));
    }
  }
  return text + "]";
}

void GateSizes::check(const std::string& letters, const std::vector<std::int64_t>& found, const std::string& file,
                      const std::string& tensor) {
  GateSizes now = *this;
  const std::vector<Axis> axes = parse(letters);
  bool fits = axes.size() == found.size();
  std::int64_t elements = 1;
  for (std::size_t i = 0; fits && i < axes.size(); ++i) {
    fits = found[i] > 0 && found[i] <= kMaxAxis && now.fit(axes[i].number, axes[i].letters, found[i] * axes[i].divisor);
    if (fits && (elements *= found[i]) > kMaxElements) {
      throw Error({.file = file, .where = tensor, .found = "more than 2^30 elements", .expected = "a gate's tensor"});
    }
  }
  if (!fits) {
    refuse(file, tensor, "shape " + show_shape(found), show(letters),
           "the gate is for another model, or of another kind");
  }
  *this = now;
}

bool GateSizes::fit(std::int64_t number, const std::string& letters, std::int64_t size) {
  char unknown = 0;
  for (const char letter : letters) {
    if (value(letter) > 0) {
      number *= value(letter);
    } else if (unknown) {
      return false;  // two unknown letters: the tables never ask
    } else {
      unknown = letter;
    }
  }
  if (!unknown) return size == number;
  if (size % number != 0) return false;
  value(unknown) = size / number;
  return true;
}

void GateSizes::check_layers(std::int64_t found, const std::string& file) {
  check_dims({.n_layers = found}, dims(), file);
  value('L') = found;
}

void check_dims(const GateDims& found, const GateDims& known, const std::string& file) {
  const auto check = [&](const char* what, std::int64_t a, std::int64_t b) {
    if (a == 0 || b == 0 || a == b) return;
    refuse(file, "", std::string("a gate of ") + what + " " + std::to_string(a),
           std::to_string(b) + ", as the model has", "the gate is for another model");
  };
  check("n_layers", found.n_layers, known.n_layers);
  check("n_kv_heads", found.n_kv_heads, known.n_kv_heads);
  check("head_dim", found.head_dim, known.head_dim);
  check("hidden_size", found.hidden_size, known.hidden_size);
}

GateDims merge(const GateDims& a, const GateDims& b) {
  const auto either = [](std::int64_t x, std::int64_t y) { return x > 0 ? x : y; };
  return {either(a.n_layers, b.n_layers), either(a.n_kv_heads, b.n_kv_heads), either(a.head_dim, b.head_dim),
          either(a.hidden_size, b.hidden_size)};
}

}  // namespace kvscope

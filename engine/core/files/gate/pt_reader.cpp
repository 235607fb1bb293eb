#include "engine/core/files/gate/pt_reader.h"

#include <utility>

#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/files/gate/pickle_reader.h"
#include "engine/core/files/weights/float_values.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using Kind = PickleValue::Kind;

constexpr std::uint64_t kMaxPickle = 16u << 20;
constexpr std::size_t kMaxRank = 8;

class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const ZipFile& zip, std::string name)
      : pickle_(pickle), zip_(zip), name_(std::move(name)) {}

  PtTensor read(const PickleValue& value) const {
    if (value.kind != Kind::tensor) {
      fail("not a tensor", "a dict of tensors", "if the tensors are nested deeper, save that dict alone");
    }
    const PickleValue& storage = at(value.items[0]);
    const std::string& type = at(storage.items[1]).text;
    PtTensor tensor{.storage = "data/" + at(storage.items[2]).text,
                    .type_name = type == "torch FloatStorage"  ? "F32"
                                 : type == "torch HalfStorage" ? "F16"
                                                               : "BF16",
                    .offset = at(value.items[1]).integer,
                    .shape = integers(value.items[2], "size"),
                    .stride = integers(value.items[3], "stride")};
    const std::int64_t n_stored = at(storage.items[4]).integer;
    check_record(tensor, n_stored);
    check_extent(tensor, n_stored);
    return tensor;
  }

 private:
  const PickleValue& at(std::uint32_t place) const { return pickle_.values[place]; }
  [[noreturn]] void fail(std::string found, std::string expected, std::string hint = "") const {
    refuse(zip_.path().string(), name_, std::move(found), std::move(expected), std::move(hint));
  }

  std::vector<std::int64_t> integers(std::uint32_t place, const char* what) const {
    std::vector<std::int64_t> out;
    for (const std::uint32_t item : at(place).items) {
      const PickleValue& value = at(item);
      if (value.kind != Kind::integer) fail(std::string("a ") + what + " that is not an integer", "integers");
      if (value.integer < 0) fail(std::string(what) + " " + std::to_string(value.integer), "0 or more");
      out.push_back(value.integer);
    }
    if (out.size() > kMaxRank) fail(std::to_string(out.size()) + " dimensions", "at most " + std::to_string(kMaxRank));
    return out;
  }

  void check_record(const PtTensor& tensor, std::int64_t n_stored) const {
    const auto entry = zip_.entries().find(tensor.storage);
    if (entry == zip_.entries().end()) {
      fail("no record " + in_quotes(tensor.storage, 40) + " in the archive", "the storage's data");
    }
    const std::int64_t item_bytes = tensor.type_name == "F32" ? 4 : 2;
    std::int64_t bytes = 0;
    if (n_stored < 0 || __builtin_mul_overflow(n_stored, item_bytes, &bytes) ||
        static_cast<std::uint64_t>(bytes) != entry->second.size) {
      fail("a storage of " + std::to_string(n_stored) + " elements of " + tensor.type_name,
           "as many as fit in its record of " + std::to_string(entry->second.size) + " bytes");
    }
  }

  /// offset + sum of (size - 1) * stride < n_stored. More elements than the storage has would be a repeated view, and
  /// a way to ask for any amount of memory.
  void check_extent(const PtTensor& tensor, std::int64_t n_stored) const {
    if (tensor.shape.size() != tensor.stride.size()) {
      fail(std::to_string(tensor.stride.size()) + " strides", std::to_string(tensor.shape.size()) + " as sizes");
    }
    if (tensor.offset < 0) fail("storage offset " + std::to_string(tensor.offset), "0 or more");
    std::int64_t last = tensor.offset, elements = 1;
    bool overflow = false;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) return fail("shape " + show_shape(tensor.shape), "a tensor with elements");
      std::int64_t step = 0;
      overflow = overflow || __builtin_mul_overflow(tensor.shape[i] - 1, tensor.stride[i], &step) ||
                 __builtin_add_overflow(last, step, &last) ||
                 __builtin_mul_overflow(elements, tensor.shape[i], &elements);
    }
    if (overflow || last >= n_stored || elements > n_stored) {
      fail("shape " + show_shape(tensor.shape) + " with strides " + show_shape(tensor.stride) + " at offset " +
               std::to_string(tensor.offset),
           "elements within its storage of " + std::to_string(n_stored));
    }
  }

  const Pickle& pickle_;
  const ZipFile& zip_;
  std::string name_;
};

void check_archive(const ZipFile& zip) {
  const auto fail = [&](std::string where, std::string found, std::string expected, std::string hint = "") {
    refuse(zip.path().string(), std::move(where), std::move(found), std::move(expected), std::move(hint));
  };
  for (const auto& [name, entry] : zip.entries()) {
    if (name.starts_with("code/") || name == "constants.pkl") {
      fail(zip.root() + "/" + name, "a TorchScript archive, which is a program", "a dict of tensors by torch.save",
           "save the model's state_dict()");
    }
  }
  const auto pickle = zip.entries().find("data.pkl");
  if (pickle == zip.entries().end()) {
    fail("", "no data.pkl in the archive", "a .pt file as torch.save writes it");
  }
  if (pickle->second.size > kMaxPickle) {
    fail("data.pkl", std::to_string(pickle->second.size) + " bytes", "at most " + std::to_string(kMaxPickle));
  }
  if (const auto order = zip.entries().find("byteorder"); order != zip.entries().end()) {
    const std::string text = order->second.size <= 16 ? zip.read("byteorder") : "";
    if (text != "little") fail("byteorder", in_quotes(text, 20), "\"little\"");
  }
}

/// Elements in the order of the shape.
std::vector<float> gather(std::vector<float> stored, const PtTensor& tensor) {
  std::int64_t n = 1;
  bool in_order = tensor.offset == 0;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    in_order = in_order && (tensor.shape[axis] == 1 || tensor.stride[axis] == n);
    n *= tensor.shape[axis];
  }
  if (in_order) {  // as nearly all are
    stored.resize(static_cast<std::size_t>(n));
    return stored;
  }
  std::vector<float> out(static_cast<std::size_t>(n));
  std::vector<std::int64_t> index(tensor.shape.size(), 0), stride = tensor.stride;
  for (std::size_t axis = 0; axis < stride.size(); ++axis) {
    if (tensor.shape[axis] == 1) stride[axis] = 0;  // never stepped along, so nothing has checked it
  }
  std::int64_t at = tensor.offset;
  for (float& value : out) {
    value = stored[static_cast<std::size_t>(at)];
    for (std::size_t axis = index.size(); axis-- > 0;) {
      at += stride[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      at -= stride[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

}  // namespace

PtFile PtFile::open_archive(const std::filesystem::path& path) {
  PtFile file(ZipFile::open(path));
  check_archive(file.zip_);
  if (!file.zip_.has_checksums())
    file.warnings_.push_back("not every record has a checksum, so damage may go unnoticed");
  return file;
}

PtFile PtFile::open_tensor(const std::filesystem::path& path) {
  PtFile file = open_archive(path);
  const Pickle pickle = parse_pickle(file.zip_.read("data.pkl"), path.string());
  const PickleValue& root = pickle.values[pickle.root];
  if (root.kind != Kind::tensor) refuse(path.string(), "data.pkl", "not a tensor", "one tensor");
  file.tensors_.emplace("", TensorReader(pickle, file.zip_, "").read(root));
  return file;
}

PtFile PtFile::open(const std::filesystem::path& path) {
  PtFile file = open_archive(path);
  const ZipFile& zip = file.zip_;
  const Pickle pickle = parse_pickle(zip.read("data.pkl"), path.string());
  const PickleValue& root = pickle.values[pickle.root];
  if (root.kind != Kind::dict) {
    throw Error({.file = path.string(), .where = "data.pkl", .found = "not a dict", .expected = "name -> tensor"});
  }
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = pickle.values[root.items[i]];
    if (key.kind != Kind::text) {
      throw Error(
          {.file = path.string(), .where = "data.pkl", .found = "a key that is not a text", .expected = "names"});
    }
    const TensorReader reader(pickle, zip, key.text);
    if (!file.tensors_.emplace(key.text, reader.read(pickle.values[root.items[i + 1]])).second) {
      throw Error({.file = path.string(), .where = key.text, .found = "a tensor twice", .expected = "every name once"});
    }
  }
  return file;
}

std::vector<float> PtFile::read(const PtTensor& tensor) const {
  return gather(to_floats(tensor.type_name, zip_.read(tensor.storage)), tensor);
}

}  // namespace kvscope

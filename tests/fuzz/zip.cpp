// A .pt file: the archive, each of its entries, and the tensors.

#include "engine/core/files/gate/pt_reader.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

void read_zip(std::string_view bytes) {
  const std::filesystem::path path = put("a.pt", bytes);
  const ZipFile zip = ZipFile::open(path);
  for (const auto& [name, entry] : zip.entries()) zip.read(name);
  const PtFile file = PtFile::open(path);
  for (const auto& [name, tensor] : file.tensors()) file.read(tensor);
}

const Registration registration("zip", read_zip);

}  // namespace
}  // namespace kvscope::fuzz

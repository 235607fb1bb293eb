#include "tests/support/folders.h"

namespace kvscope::test {

std::filesystem::path source_folder() { return KVSCOPE_SOURCE_DIR; }
std::filesystem::path build_folder() { return KVSCOPE_BINARY_DIR; }

}  // namespace kvscope::test

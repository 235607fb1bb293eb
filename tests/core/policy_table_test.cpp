// What the docs say of the policies is what the policies declare.
#include "engine/core/policy/policy_table.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "engine/core/policy/policy.h"
#include "tests/support/folders.h"

namespace kvscope {
namespace {

TEST_CASE("docs/policies.md is what the policies declare", "[core][policy]") {
  const std::string path = test::in_source("docs/policies.md"), wanted = policy_document();
  if (std::getenv("KVSCOPE_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << wanted;
  std::ifstream file(path, std::ios::binary);
  const std::string found((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO("KVSCOPE_WRITE_DOCS=1 core_tests \"docs/policies.md*\" writes it");
  CHECK(found == wanted);
  for (const PolicyInfo& info : policy_list())
    CHECK(wanted.find("## `" + std::string(info.name) + "`") != std::string::npos);
}

}  // namespace
}  // namespace kvscope

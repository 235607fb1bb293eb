#pragma once
// Catch2 3 (Debian 13) under the names of version 2 (Debian 12), which the tests use. Only where version 3 is installed is
// this folder searched for headers.

#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace Catch {
namespace Matchers {
inline StringContainsMatcher Contains(const std::string& text, CaseSensitive sensitive = CaseSensitive::Yes) {
  return ContainsSubstring(text, sensitive);
}
}  // namespace Matchers
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::StartsWith;
}  // namespace Catch

using Catch::Approx;
